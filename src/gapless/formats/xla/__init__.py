"""Profiles of XLA, as JAX and TensorFlow write them (``*.xplane.pb``) → a trace."""
