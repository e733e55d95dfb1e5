"""Causes by which ranks wait for one another."""
