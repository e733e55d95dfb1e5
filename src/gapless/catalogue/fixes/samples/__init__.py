"""Fixes for how samples are made, and how workers hand them over."""
