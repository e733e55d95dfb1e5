"""Drop-ins for training code. They need torch, and nothing else of gapless."""

from .device_prefetcher import DevicePrefetcher
from .recycled_collate import RecycledCollate, recycle_batches

__all__ = ["DevicePrefetcher", "RecycledCollate", "recycle_batches"]
