"""Fixes for periodic work, and ablations that leave it out."""
