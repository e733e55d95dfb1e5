"""Causes by which the host keeps the device, or the training, waiting."""
