"""Causes in how memory is allocated, kept and written."""
