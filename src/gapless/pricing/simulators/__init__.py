"""Simulators of changes: of windows, loaders, the host alone, several ranks."""
