"""Checks of the packages and settings that a training runs with."""
