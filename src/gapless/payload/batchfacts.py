"""What batches are made of: looked at once a loader, at the first one that it hands over."""

from __future__ import annotations

import sys
from collections import OrderedDict, UserDict, defaultdict
from typing import Any

MOST = 10_000  # parts of a batch that are looked at
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_MAPS = (dict, OrderedDict, defaultdict)


def values(batch: Any) -> dict[str, Any]:
    """Give the values of a FACT of noun "batch"; nothing of the batch's own code is run."""
    parts = _Parts()
    with sys.modules["torch"]._C.DisableTorchFunction():
        parts.look(batch)
    return {
        "bytes": parts.bytes if parts.left > 0 else None,
        "tensors": parts.tensors,
        "others": sorted(parts.others),
        "pinnable": parts.pinnable(),
    }


class _Parts:
    """What was found in a batch so far."""

    def __init__(self) -> None:
        self.left = MOST
        self.tensors = self.bytes = 0
        self.fixed = False  # a tensor that cannot be pinned: on a device, or sparse
        self.own_way = False  # an object that pins itself
        self.others: set[str] = set()  # classes that torch's pinning passes over

    def pinnable(self) -> bool | None:
        """Tell whether pinning would do something, and not fail; None: nothing to pin was seen."""
        if self.fixed:
            return False
        if self.tensors or self.own_way:
            return True
        return False if self.others else None

    def look(self, thing: Any) -> None:
        """Look at a part of a batch, as torch's pinning goes through it."""
        self.left -= 1
        kind = type(thing)
        if self.left <= 0 or issubclass(kind, _PLAIN):
            return
        torch = sys.modules["torch"]
        if issubclass(kind, torch.Tensor):
            self._tensor(thing, torch)
        elif issubclass(kind, UserDict) and type(vars(thing).get("data")) in _MAPS:
            self._several(vars(thing)["data"].values())
        elif kind in _MAPS:
            self._several(thing.values())
        elif issubclass(kind, tuple):
            self._several(tuple.__iter__(thing))
        elif issubclass(kind, list):
            self._several(list.__iter__(thing))
        else:
            self._other(thing, kind)

    def _several(self, things: Any) -> None:
        for one in things:
            if self.left > 0:
                self.look(one)

    def _tensor(self, tensor: Any, torch: Any) -> None:
        self.tensors += 1
        if tensor.layout is torch.strided and tensor.device.type == "cpu":
            self.bytes += tensor.numel() * tensor.element_size()
        else:
            self.fixed = True

    def _other(self, thing: Any, kind: type) -> None:
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            self.bytes += thing.nbytes
        if callable(getattr(kind, "pin_memory", None)):
            self.own_way = True
        elif len(self.others) < 8:  # noqa: PLR2004 - so many names say it
            self.others.add(f"{kind.__module__}.{kind.__qualname__}")
