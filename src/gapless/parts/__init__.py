"""Drop-ins for training code. They need torch, and nothing else of gapless."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .device_prefetcher import DevicePrefetcher
    from .packed_dataset import PackedDataset
    from .recycled_collate import RecycledCollate, recycle_batches
    from .uint8_pictures import Uint8Picture, send_uint8

__all__ = [
    "DevicePrefetcher",
    "PackedDataset",
    "RecycledCollate",
    "Uint8Picture",
    "recycle_batches",
    "send_uint8",
]

_FILES = {
    "DevicePrefetcher": "device_prefetcher",
    "PackedDataset": "packed_dataset",
    "RecycledCollate": "recycled_collate",
    "Uint8Picture": "uint8_pictures",
    "recycle_batches": "recycled_collate",
    "send_uint8": "uint8_pictures",
}


def __getattr__(name: str) -> Any:
    """Import a drop-in when it is asked for: each alone, and torch with it."""
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FILES[name]}", __name__), name)
