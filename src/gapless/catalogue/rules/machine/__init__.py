"""Causes in the machine, or in other processes that use it."""
