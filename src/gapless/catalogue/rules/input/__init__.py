"""Causes by which a training waits for its data."""
