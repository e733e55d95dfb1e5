"""Queries for input rules: loaders, their stages, late batches and processors."""
