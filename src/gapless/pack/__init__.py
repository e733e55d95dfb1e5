"""Pack a data set into few large files that are read fast: planned, written, checked."""
