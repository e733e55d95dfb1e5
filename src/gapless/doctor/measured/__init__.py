"""Checks of what was measured against what the hardware is known to reach."""
