"""A training, or a machine, as it is now: logs followed while they grow, samples, processes."""
