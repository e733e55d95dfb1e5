"""Checks of what the kernel gives: processors, memory, storage, limits."""
