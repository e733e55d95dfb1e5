"""Which dimensions of a model's inputs may vary, and the same inputs with another batch size.

What varied between forwards is free. The batch is a dimension along which the model works row by
row: fewer rows in give the same rows out. That is tried, along the first dimension and the second.
"""

from __future__ import annotations

import sys
from typing import Any

from . import parity, trees

_AXES = 0, 1


class BatchAxis:
    """The dimension of the inputs that is the batch: its axis, its size, which leaves have it."""

    def __init__(self, axis: int, size: int, leaves: list[int]) -> None:
        self.axis, self.size, self.leaves = axis, size, leaves

    def resize(self, example: Any, size: int) -> Any:
        """Return the example with another number of rows: its first ones, or all repeated."""
        leaves, spec = trees.take_apart(example)
        torch = sys.modules["torch"]
        for number in self.leaves:
            tensor = leaves[number]
            rows = torch.arange(size, device=tensor.device) % self.size
            leaves[number] = tensor.index_select(self.axis, rows)
        return trees.put_together(leaves, spec)


def find_varying(shapes: list[tuple[Any, ...]]) -> dict[int, set[int]]:
    """Return by leaf the dimensions that were not the same in all forwards."""
    varying: dict[int, set[int]] = {}
    for leaf, sizes in enumerate(zip(*shapes)):
        if any(size is None for size in sizes) or len({len(size) for size in sizes}) > 1:
            continue
        axes = {axis for axis, lengths in enumerate(zip(*sizes)) if len(set(lengths)) > 1}
        if axes:
            varying[leaf] = axes
    return varying


def find_batch(run: Any, example: Any) -> tuple[BatchAxis | None, str]:
    """Return the batch of the inputs; else ``None`` and why none was found.

    ``run(args, kwargs)`` is the model's forward.
    """
    leaves, _ = trees.take_apart(example)
    why = "its inputs hold no tensor with a dimension"
    for axis in _AXES:
        batch = _propose_batch(leaves, axis)
        if batch is None:
            continue
        lack = _test_batch(run, example, batch)
        if lack is None:
            return batch, ""
        why = lack if axis == _AXES[0] else why
    return None, why


def _propose_batch(leaves: list[Any], axis: int) -> BatchAxis | None:
    tensors = [
        (n, leaf) for n, leaf in enumerate(leaves) if trees.is_tensor(leaf) and leaf.dim() > axis
    ]
    if not tensors:
        return None
    size = int(tensors[0][1].shape[axis])
    return BatchAxis(axis, size, [n for n, leaf in tensors if leaf.shape[axis] == size])


def _test_batch(run: Any, example: Any, batch: BatchAxis) -> str | None:
    """Return why a dimension is not the batch: other rows change a row."""
    large_size = batch.size if batch.size > 1 else 3
    small_size = max(1, large_size // 2)
    try:
        wholes = trees.tensors_of(run(*batch.resize(example, large_size)))
        parts = trees.tensors_of(run(*batch.resize(example, small_size)))
    except Exception as error:
        sizes = f"{small_size} rows in place of {large_size}"
        return f"with {sizes} it raises {type(error).__name__}: {error}"[:200]
    if len(wholes) != len(parts):
        return f"with {small_size} rows it gives {len(parts)} tensors in place of {len(wholes)}"
    for full, short in zip(wholes, parts):
        axis = _find_other_axis(tuple(full.shape), tuple(short.shape))
        if axis is not None:
            full = full.narrow(axis, 0, short.shape[axis])  # noqa: PLW2901 - the same rows of it
        elif full.dim() and large_size != small_size:
            return "an output does not grow with its inputs' first dimension"
        else:
            continue  # a loss, a mean: of the whole batch
        if not parity.compare_tensors(full, short)["within"]:
            return f"a row's result depends on other rows (along dimension {batch.axis})"
    return None


def _find_other_axis(full: tuple[int, ...], short: tuple[int, ...]) -> int | None:
    """Return the one axis in which two shapes differ; ``None``: it is none, or not one alone."""
    if len(full) != len(short):
        return None
    axes = [axis for axis, sizes in enumerate(zip(full, short)) if sizes[0] != sizes[1]]
    return axes[0] if len(axes) == 1 else None
