"""Ranks and hosts in a report: how they spread, and which of them stand out."""
