"""Processes that trained: their steps, the calls that end these, their code."""
