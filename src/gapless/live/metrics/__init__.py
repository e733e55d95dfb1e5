"""A moment as metrics that Prometheus collects, and the server that answers it."""
