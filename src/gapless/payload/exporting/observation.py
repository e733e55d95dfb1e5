"""What was seen of a model's forwards: one example, and the shapes of all."""

from __future__ import annotations

import sys
from typing import Any

from . import trees

_MAX_SHAPES = 256  # kept of one module in one mode


class ForwardRecord:
    """The forwards of one module in one mode (training, evaluating)."""

    def __init__(self, module: Any) -> None:
        self.module, self.calls = module, 0
        self.example: Any = None  # (args, kwargs) of the first, copied
        self.autocast: Any = None  # (type of device, format) of the first; None: off
        self.shapes: list[tuple[Any, ...]] = []  # of each different forward, by leaf
        self._spec: Any = None

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a call, before it is made."""
        leaves, spec = trees.take_apart((args, kwargs))
        self.calls += 1
        if self.example is None:
            self._spec = spec
            self.example = trees.copy_tensors((args, kwargs))
            self.autocast = find_autocast(leaves)
        if spec != self._spec or len(self.shapes) >= _MAX_SHAPES:
            return
        shapes = tuple(tuple(leaf.shape) if trees.is_tensor(leaf) else None for leaf in leaves)
        if shapes not in self.shapes:
            self.shapes.append(shapes)

    def shapes_like(self, record: ForwardRecord) -> list[tuple[Any, ...]]:
        """Return the shapes of another record, as far as they are of the same arguments."""
        return record.shapes if record._spec == self._spec else []


def find_autocast(leaves: list[Any]) -> Any:
    """Return the type of device and the format of the autocast that is on; ``None``: it is off."""
    torch = sys.modules["torch"]
    kinds = {leaf.device.type for leaf in leaves if trees.is_tensor(leaf)}
    for kind in sorted(kinds & {"cuda", "cpu"}):
        if hasattr(torch, "get_autocast_dtype"):  # since torch 2.4, which warns of the others
            is_on, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        elif kind == "cuda":
            is_on, dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
        else:
            is_on, dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
        if is_on:
            return kind, dtype
    return None
