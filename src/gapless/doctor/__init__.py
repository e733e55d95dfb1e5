"""Checks of the machine and its software: by subject, each a verdict, its evidence, a remedy."""
