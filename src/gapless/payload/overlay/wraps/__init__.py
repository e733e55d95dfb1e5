"""Parts that something of the training goes through, one file each: ``apply(number, edit)``."""
