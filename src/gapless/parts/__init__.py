"""Drop-ins for training code. They need torch, and nothing else of gapless."""

from .device_prefetcher import DevicePrefetcher
from .recycled_collate import RecycledCollate, recycle_batches
from .uint8_pictures import Uint8Picture, send_uint8

__all__ = [
    "DevicePrefetcher",
    "RecycledCollate",
    "Uint8Picture",
    "recycle_batches",
    "send_uint8",
]
