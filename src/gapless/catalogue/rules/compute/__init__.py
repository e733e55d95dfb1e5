"""Causes in how the computing itself is done: formats, kernels, threads."""
