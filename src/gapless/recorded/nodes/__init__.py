"""Machines of one job, each recorded into a folder of its own: one axis, one recording."""
