"""The nouns. Frozen dataclasses and NumPy columns; imports nothing of ours."""
