"""Parts that something of the training goes through, one file each: ``lay(number, edit)``."""
