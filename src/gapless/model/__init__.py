"""The nouns. Frozen values and NumPy columns; imports nothing of ours."""
