"""Queries on lines that were sampled, and on the calls at them."""
