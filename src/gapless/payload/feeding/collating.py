"""Other ways to put samples together and to hand batches over."""

from __future__ import annotations

import sys
from typing import Any, Callable


def map_leaves(batch: Any, change: Callable[[Any], Any]) -> Any:
    """Return a batch with each of its parts changed; containers that are not plain stay."""
    if isinstance(batch, dict):
        return {key: map_leaves(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple):
        values = [map_leaves(value, change) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
    if isinstance(batch, list):
        return [map_leaves(value, change) for value in batch]
    return change(batch)


def leaves(batch: Any) -> list[Any]:
    """Return all parts of a batch."""
    parts: list[Any] = []
    map_leaves(batch, parts.append)
    return parts


def is_default(collate_fn: Any) -> bool:
    """Return whether a collate function is torch's own."""
    return (
        getattr(collate_fn, "__name__", "") == "default_collate"
        and getattr(collate_fn, "__module__", "") == "torch.utils.data._utils.collate"
    )


class RecyclingCollate:
    """torch's own collate, into the same memory for each batch instead of new one."""

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._buffers: dict[tuple[Any, ...], Any] = {}

    def __call__(self, samples: list[Any]) -> Any:
        """Return the batch; it is overwritten by the next."""
        return self._collate(samples, ())

    def _collate(self, samples: list[Any], path: tuple[Any, ...]) -> Any:
        torch = sys.modules["torch"]
        first = samples[0]
        if type(first).__module__ == "numpy" and getattr(first, "shape", None):
            samples = [torch.as_tensor(sample) for sample in samples]
            first = samples[0]
        if isinstance(first, torch.Tensor):
            return torch.stack(samples, 0, out=self._buffer(first, len(samples), path))
        if isinstance(first, dict):
            return {
                key: self._collate([sample[key] for sample in samples], (*path, key))
                for key in first
            }
        if isinstance(first, (list, tuple)):
            parts = [
                self._collate(list(part), (*path, number))
                for number, part in enumerate(zip(*samples))
            ]
            return type(first)(*parts) if hasattr(first, "_fields") else parts
        return torch.utils.data.default_collate(samples)

    def _buffer(self, first: Any, count: int, path: tuple[Any, ...]) -> Any:
        torch = sys.modules["torch"]
        key = (*path, count, first.shape, first.dtype)
        if key not in self._buffers:
            buffer = torch.empty((count, *first.shape), dtype=first.dtype)
            self._buffers[key] = buffer.share_memory_() if self._shared else buffer
        return self._buffers[key]
