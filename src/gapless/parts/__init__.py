"""Drop-ins for training code. They need torch, and nothing else of gapless."""

from .device_prefetcher import DevicePrefetcher

__all__ = ["DevicePrefetcher"]
