"""How full batches are: which share of their length is padding. A few of a run are looked at.

A batch is looked at in views of the tensors' own memory (NumPy's, if the training has loaded it): a
sample of their rows, positions and channels. No operator of torch's is called, nothing is copied
that is large, and what lies on a device is left alone.
"""

from __future__ import annotations

import sys
from collections import UserDict
from typing import Any, NamedTuple

LOOKS = 32  # at batches of a process, outside windows …
LOOKS_IN_WINDOWS = 32  # … and in them
EVERY_NS = 250_000_000  # at the least between two outside, the tenth part more with each …
SPARED = 1000  # … and so many times what the last look took
BLANK = 3  # looks at a loader's batches that showed nothing: it is left alone
PARTS = 256  # of a batch
ARRAYS = 8  # with rows and a length
ROWS, POSITIONS, CHANNELS = 32, 192, 3  # of an array, evenly spread
SHORTEST = 8  # positions: below, there is no length to speak of
MOST = 4  # lengths that are told of a batch
_DIMENSIONS = (2, 3, 4)
_AGREE = 0.9  # of the rows must agree with what is said to be their length
_NEAR = 0.01  # of the length, or two positions of the sample
_MAPS = (dict, UserDict)
_KINDS = {  # of torch's types, as NumPy calls them
    **dict.fromkeys(("torch.float16", "torch.float32", "torch.float64"), "f"),
    **dict.fromkeys(("torch.int8", "torch.int16", "torch.int32", "torch.int64"), "i"),
    "torch.uint8": "u",
    "torch.bool": "b",
}


class Padded(NamedTuple):
    """What rows of one length hold: the share of it in each row, up to the last that differs."""

    rows: int
    length: int
    kind: str  # "int", "float"
    dimensions: int
    along: int  # which of them the length is
    picked: slice  # the rows that were looked at
    filled: Any


_state: dict[str, Any] = {"due": 0, "left": LOOKS, "in_windows": LOOKS_IN_WINDOWS}
_blank: dict[int, int] = {}  # by loader: looks that showed nothing


def wanted(loader: int, at: int, *, window: bool) -> bool:
    """Tell whether a batch that is handed over now is to be looked at."""
    if window:
        return _state["in_windows"] > 0 and not _blank.get(loader)
    return at >= _state["due"] and _state["left"] > 0 and _blank.get(loader, 0) < BLANK


def looked(loader: int, begun: int, end: int, *, window: bool, found: bool) -> int:
    """Note that a batch was looked at, and what that took; give how many were before."""
    _blank[loader] = 0 if found else _blank.get(loader, 0) + 1
    _state["in_windows" if window else "left"] -= 1
    number = LOOKS + LOOKS_IN_WINDOWS - _state["left"] - _state["in_windows"] - 1
    spread = EVERY_NS * (10 + LOOKS - _state["left"]) // 10
    _state["due"] = end + max(spread, SPARED * (end - begun))
    return number


def forget() -> None:
    """Begin anew."""
    _state.update(due=0, left=LOOKS, in_windows=LOOKS_IN_WINDOWS)
    _blank.clear()


def values(batch: Any) -> list[dict[str, Any]]:
    """Tell, for each length that rows of a batch have, how much of it they fill."""
    numpy, torch = sys.modules.get("numpy"), sys.modules["torch"]
    if numpy is None:
        return []
    tensors: list[Any] = []
    with torch._C.DisableTorchFunction():
        _gather(batch, tensors, torch.Tensor, [PARTS])
        arrays = [_array(one, torch) for one in tensors]
    known = [one for one in arrays if one is not None]
    return _told(numpy, known)


# ── The arrays of a batch ───────────────────────────────────────────────────────────────────────


def _gather(thing: Any, found: list[Any], tensor: type, left: list[int]) -> None:
    left[0] -= 1
    kind = type(thing)
    if left[0] < 0:
        return
    if kind is tensor:
        found.append(thing)
    elif issubclass(kind, _MAPS):
        inner = vars(thing).get("data") if issubclass(kind, UserDict) else thing
        for one in dict.values(inner) if isinstance(inner, dict) else ():
            _gather(one, found, tensor, left)
    elif issubclass(kind, (tuple, list)):
        for one in (tuple if issubclass(kind, tuple) else list).__iter__(thing):
            if left[0] <= 0:
                break
            _gather(one, found, tensor, left)


def _array(tensor: Any, torch: Any) -> Any:
    """Give a view of a tensor's memory; None of what has none to see, or is no numbers.

    ``tensor.numpy()`` would call operators, which a window shows.
    """
    kind = _KINDS.get(str(tensor.dtype))
    plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if kind is None or not plain or tensor.is_neg() or not tensor.numel():
        return None
    if tensor.dim() == 0 or tensor.dim() > max(_DIMENSIONS):
        return None
    return sys.modules["numpy"].asarray(_Memory(tensor, kind))


class _Memory:
    """A tensor's memory, to be read, as NumPy understands it."""

    def __init__(self, tensor: Any, kind: str) -> None:
        width = tensor.element_size()
        self.tensor = tensor  # it lives as long as the view does
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),
            "shape": tuple(tensor.shape),
            "strides": tuple(one * width for one in tensor.stride()),
            "typestr": f"{'|' if width == 1 else '<'}{kind}{width}",
        }


# ── Their lengths ───────────────────────────────────────────────────────────────────────────────


def _told(numpy: Any, arrays: list[Any]) -> list[dict[str, Any]]:
    counts = [one for one in arrays if one.ndim == 1 and one.dtype.kind in "iu" and len(one) > 1]
    sizes = {len(one) for one in arrays if one.ndim == 1}
    large = [one for one in arrays if one.ndim in _DIMENSIONS and one.shape[0] > 1]
    large = sorted(large, key=lambda one: -one.nbytes)[:ARRAYS]
    masks = [one for one in large if one.ndim == 2 and _is_mask(numpy, one)]  # noqa: PLR2004
    data = [one for one in large if not any(one is each for each in masks)]
    found: dict[tuple[int, int], Padded] = {}
    for padded in (one for each in data for one in _lengths(numpy, each, sizes)):
        # Padding is what is so in all arrays of a size: labels end where only few are set.
        before = found.setdefault((padded.rows, padded.length), padded)
        both = before._replace(filled=numpy.fmax(padded.filled, before.filled))
        found[padded.rows, padded.length] = both
    known = [one for one in found.values() if not numpy.isnan(one.filled).all()]
    return [_one(numpy, one, counts, masks) for one in known[:MOST]]


def _is_mask(numpy: Any, array: Any) -> bool:
    """Tell whether an array holds truth, or zeros and ones."""
    if array.dtype.kind == "b":
        return True
    some = array[_spread(array.shape[0], ROWS), _spread(array.shape[1], POSITIONS)]
    return array.dtype.kind in "iu" and bool(numpy.isin(some, (0, 1)).all())


def _lengths(numpy: Any, array: Any, sizes: set[int]) -> list[Padded]:
    """Give what the rows of an array fill of each dimension that may be their length."""
    if array.dtype.kind not in "iuf":
        return []
    first = array.shape[0] in sizes or array.shape[1] not in sizes
    rows = 0 if first else 1  # where other tensors tell that the batch is the second
    along = [at for at in range(array.ndim) if at != rows and array.shape[at] >= SHORTEST]
    return [_filled(numpy, array, rows, at) for at in along]


def _filled(numpy: Any, array: Any, rows: int, along: int) -> Padded:
    """Measure up to where each row differs from its last position, in all of its channels."""
    many, length, dimensions = array.shape[rows], array.shape[along], array.ndim
    picked, positions = _spread(many, ROWS), _spread(length, POSITIONS)
    cut = [_spread(size, CHANNELS) for size in array.shape]
    cut[rows], cut[along] = picked, positions
    kind = "float" if array.dtype.kind == "f" else "int"
    array = numpy.moveaxis(array[tuple(cut)], (rows, along), (0, 1))
    array = array.reshape(array.shape[0], array.shape[1], -1)
    differs = (array != array[:, -1:]).any(axis=2)
    after = differs.shape[1] - numpy.argmax(differs[:, ::-1], axis=1)  # the last that differs
    ends = positions.start + (after - 1) * positions.step + 1
    ends = numpy.where(ends >= length - positions.step, length, ends)  # one that ends so: no run
    filled = numpy.where(differs.any(axis=1), ends / length, numpy.nan)  # nothing is in the row
    return Padded(many, length, kind, dimensions, along, picked, filled)


def _spread(size: int, most: int) -> slice:
    """Give so many places at most, evenly spread, the last one among them."""
    step = -(-size // most)
    return slice((size - 1) % step, size, step)


def _one(numpy: Any, padded: Padded, counts: list[Any], masks: list[Any]) -> dict[str, Any]:
    """Give what is told of a length, by what the batch says of itself where that agrees."""
    by, seen = None, ~numpy.isnan(padded.filled)
    filled = padded.filled[seen]
    near = max(2 / min(padded.length, POSITIONS), _NEAR)
    for said, share in _said(numpy, padded, counts, masks):
        agree = numpy.abs(share[padded.picked] - padded.filled)[seen] <= near
        if agree.mean() >= _AGREE:
            by, filled = said, share
            break
    return {
        "rows": padded.rows,
        "length": padded.length,
        "kind": padded.kind,
        "dimensions": padded.dimensions,
        "along": padded.along,
        "by": by,
        "filled": round(float(filled.mean()), 4),
        "longest": round(float(filled.max()), 4),
        "square": round(float((filled * filled).mean()), 4),
    }


def _said(numpy: Any, padded: Padded, counts: list[Any], masks: list[Any]) -> Any:
    """Give the shares that lengths and masks in the batch speak of."""
    for one in counts:
        if len(one) == padded.rows and one.min() >= 0 and one.max() <= padded.length:
            yield "lengths", one / padded.length
    for one in masks:
        if one.shape == (padded.rows, padded.length) and one.size <= 1 << 20:
            set_ones = numpy.count_nonzero(one, axis=1) / padded.length
            yield "mask", set_ones
            yield "mask", 1 - set_ones
