"""Proven fixes written into sixty and more shapes of source, and what the trainings then do."""
