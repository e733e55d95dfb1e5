"""Causes in copies to and from the device, and in waits for it."""
