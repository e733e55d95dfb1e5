"""Fixes for how the computing itself is done."""
