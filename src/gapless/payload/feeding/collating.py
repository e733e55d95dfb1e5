"""Other ways to put samples together and to hand batches over."""

from __future__ import annotations

import sys
from typing import Any, Callable

_PAGE = 4096  # bytes


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


def touch(batch: Any) -> None:
    """Read a byte of each page of a batch."""
    torch = sys.modules["torch"]
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            is_here = leaf.layout is torch.strided and not (leaf.is_cuda or leaf.is_nested)
            if not is_here or not leaf.is_contiguous():
                continue
            leaf.view(-1)[:: max(1, _PAGE // leaf.element_size())].clone()
        elif type(leaf).__module__ == "numpy" and getattr(leaf, "shape", None) and leaf.itemsize:
            leaf.reshape(-1)[:: max(1, _PAGE // leaf.itemsize)].copy()
