"""Entries of a trace turned into columns of exact numbers."""
