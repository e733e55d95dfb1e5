"""Fixes for how batches are made, handed over and copied."""
