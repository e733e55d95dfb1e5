"""Queries on several ranks: their steps, marks, waits and collectives."""
