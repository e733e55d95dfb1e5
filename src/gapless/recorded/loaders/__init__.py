"""Loaders of a recorded run: batches, fetches, waits, workers, what-if inputs."""
