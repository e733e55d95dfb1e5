"""Named edits, one file each: a function of the run's facts that gives proposals."""
