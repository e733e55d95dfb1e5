"""Files of a patch: refused or not, shown as a diff, written, restored."""
