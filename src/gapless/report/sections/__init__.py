"""Parts of a report, each a function of what it shows."""
