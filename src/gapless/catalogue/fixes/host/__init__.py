"""Fixes for what the host does in each step."""
