"""A training that nobody records, seen from outside for some seconds."""
