"""The report of a recorded run."""
