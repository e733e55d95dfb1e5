"""Predictions: whether a replay can be believed, its ratio, its interval."""
