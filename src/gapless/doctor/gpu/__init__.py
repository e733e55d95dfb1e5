"""Checks of the GPUs, as NVML shows them."""
