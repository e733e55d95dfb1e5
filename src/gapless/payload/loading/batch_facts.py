"""What batches are made of: looked at once a loader, at the first one that it hands over."""

from __future__ import annotations

import sys
from collections import OrderedDict, UserDict, defaultdict
from typing import Any

MAX_PARTS = 10_000  # parts of a batch that are looked at
_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_MAPS = (dict, OrderedDict, defaultdict)


def values(batch: Any) -> dict[str, Any]:
    """Return the values of a FACT of noun "batch"; nothing of the batch's own code is run."""
    contents = _BatchContents()
    with sys.modules["torch"]._C.DisableTorchFunction():
        contents.look(batch)
    return {
        "bytes": contents.bytes if contents.left > 0 else None,
        "tensors": contents.tensors,
        "others": sorted(contents.others),
        "pinnable": contents.pinnable(),
        "byte_pictures": contents.byte_pictures,
    }


class _BatchContents:
    """What was found in a batch so far."""

    def __init__(self) -> None:
        self.left = MAX_PARTS
        self.tensors = self.bytes = 0
        self.fixed = False  # a tensor that cannot be pinned: on a device, or sparse
        self.byte_pictures = False  # by batch, channel, row and column
        self.own_way = False  # an object that pins itself
        self.others: set[str] = set()  # classes that torch's pinning passes over

    def pinnable(self) -> bool | None:
        """Return whether pinning has an effect and does not fail; None: nothing to pin was seen."""
        if self.fixed:
            return False
        if self.tensors or self.own_way:
            return True
        return False if self.others else None

    def look(self, member: Any) -> None:
        """Look at a part of a batch, as torch's pinning goes through it."""
        self.left -= 1
        kind = type(member)
        if self.left <= 0 or issubclass(kind, _PLAIN):
            return
        torch = sys.modules["torch"]
        if issubclass(kind, torch.Tensor):
            self._count_tensor(member, torch)
        elif issubclass(kind, UserDict) and type(vars(member).get("data")) in _MAPS:
            self._look_at_all(vars(member)["data"].values())
        elif kind in _MAPS:
            self._look_at_all(member.values())
        elif issubclass(kind, tuple):
            self._look_at_all(tuple.__iter__(member))
        elif issubclass(kind, list):
            self._look_at_all(list.__iter__(member))
        else:
            self._note_object(member, kind)

    def _look_at_all(self, members: Any) -> None:
        for member in members:
            if self.left > 0:
                self.look(member)

    def _count_tensor(self, tensor: Any, torch: Any) -> None:
        self.tensors += 1
        if tensor.layout is torch.strided and tensor.device.type == "cpu":
            self.bytes += tensor.numel() * tensor.element_size()
            self.byte_pictures = self.byte_pictures or _holds_byte_pictures(tensor, torch)
        else:
            self.fixed = True

    def _note_object(self, member: Any, kind: type) -> None:
        if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            self.bytes += member.nbytes
        if callable(getattr(kind, "pin_memory", None)):
            self.own_way = True
        elif len(self.others) < 8:  # noqa: PLR2004 - so many names say it
            self.others.add(f"{kind.__module__}.{kind.__qualname__}")


def _holds_byte_pictures(tensor: Any, torch: Any) -> bool:
    """Return whether a tensor holds pictures as bytes, as ``ByteBatches`` wants them."""
    if tensor.dtype is not torch.uint8 or tensor.dim() != 4 or not tensor.is_contiguous():  # noqa: PLR2004
        return False
    return 1 <= tensor.size(1) <= 4 and min(tensor.shape[2:]) >= 8  # noqa: PLR2004 - sides
