"""Checks of the machine and its software: one file each, a verdict, its evidence, a remedy."""
