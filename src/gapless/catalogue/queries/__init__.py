"""Queries on evidence that several rules share."""
