"""Causes in work that nothing needs."""
