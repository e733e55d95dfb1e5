"""Changes applied to a graph."""
