"""A window as a graph: how it is built and simulated."""
