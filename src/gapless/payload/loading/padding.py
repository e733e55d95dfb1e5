"""How full batches are: which share of their length is padding. A few of a run are looked at.

A batch is looked at in views of the tensors' own memory (NumPy's, if the training has loaded it): a
sample of their rows, positions and channels. No operator of torch's is called, nothing is copied
that is large, and what lies on a device is left alone.
"""

from __future__ import annotations

import sys
from collections import UserDict
from typing import Any, NamedTuple

from ..process_state import keep

MAX_LOOKS = 32  # at batches of a process, outside windows …
MAX_LOOKS_IN_WINDOWS = 32  # … and in them
EVERY_NS = 250_000_000  # at the least between two outside, the tenth part more with each …
PAUSE_FACTOR = 1000  # … and so many times what the last look took
MAX_BLANK_LOOKS = 3  # looks at a loader's batches that showed nothing: it is left alone
MAX_PARTS = 256  # of a batch
MAX_ARRAYS = 8  # with rows and a length
MAX_ROWS, MAX_POSITIONS, MAX_CHANNELS = 32, 192, 3  # of an array, evenly spread
MIN_LENGTH = 8  # positions: below, there is no length to speak of
MAX_LENGTHS = 4  # lengths that are reported of a batch
_DIMENSIONS = (2, 3, 4)
_MIN_AGREEMENT = 0.9  # of the rows must agree with what is said to be their length
_LENGTH_TOLERANCE = 0.01  # of the length, or two positions of the sample
_MAPS = (dict, UserDict)
_KINDS = {  # of torch's types, as NumPy calls them
    **dict.fromkeys(("torch.float16", "torch.float32", "torch.float64"), "f"),
    **dict.fromkeys(("torch.int8", "torch.int16", "torch.int32", "torch.int64"), "i"),
    "torch.uint8": "u",
    "torch.bool": "b",
}


class RowPadding(NamedTuple):
    """What rows of one length hold: the share of it in each row, up to the last that differs."""

    rows: int
    length: int
    kind: str  # "int", "float"
    dimensions: int
    along: int  # which of them the length is
    picked: slice  # the rows that were looked at
    filled: Any


class _BatchLooks:
    """The looks that are left."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Look at batches as if none had been seen."""
        self.due_ns = 0
        self.n_left, self.n_left_in_windows = MAX_LOOKS, MAX_LOOKS_IN_WINDOWS
        self.blank_looks: dict[int, int] = {}  # by loader: looks that showed nothing


looks = keep(_BatchLooks())


def is_look_due(loader: int, now_ns: int, *, window: bool) -> bool:
    """Return whether a batch that is handed over now is to be looked at."""
    if window:
        return looks.n_left_in_windows > 0 and not looks.blank_looks.get(loader)
    return (
        now_ns >= looks.due_ns
        and looks.n_left > 0
        and looks.blank_looks.get(loader, 0) < MAX_BLANK_LOOKS
    )


def note_look(loader: int, start: int, end: int, *, window: bool, has_lengths: bool) -> int:
    """Note that a batch was looked at, and what that took; return how many were before."""
    looks.blank_looks[loader] = 0 if has_lengths else looks.blank_looks.get(loader, 0) + 1
    if window:
        looks.n_left_in_windows -= 1
    else:
        looks.n_left -= 1
    number = MAX_LOOKS + MAX_LOOKS_IN_WINDOWS - looks.n_left - looks.n_left_in_windows - 1
    spread = EVERY_NS * (10 + MAX_LOOKS - looks.n_left) // 10
    looks.due_ns = end + max(spread, PAUSE_FACTOR * (end - start))
    return number


def values(batch: Any) -> list[dict[str, Any]]:
    """Return, for each length that rows of a batch have, how much of it they fill."""
    numpy, torch = sys.modules.get("numpy"), sys.modules["torch"]
    if numpy is None:
        return []
    tensors: list[Any] = []
    with torch._C.DisableTorchFunction():
        _gather(batch, tensors, torch.Tensor, [MAX_PARTS])
        arrays = [_array(tensor, torch) for tensor in tensors]
    numeric = [array for array in arrays if array is not None]
    return _measure_lengths(numpy, numeric)


# ── The arrays of a batch ───────────────────────────────────────────────────────────────────────


def _gather(member: Any, tensors: list[Any], tensor_class: type, budget: list[int]) -> None:
    budget[0] -= 1
    kind = type(member)
    if budget[0] < 0:
        return
    if kind is tensor_class:
        tensors.append(member)
    elif issubclass(kind, _MAPS):
        inner = vars(member).get("data") if issubclass(kind, UserDict) else member
        for nested in dict.values(inner) if isinstance(inner, dict) else ():
            _gather(nested, tensors, tensor_class, budget)
    elif issubclass(kind, (tuple, list)):
        for nested in (tuple if issubclass(kind, tuple) else list).__iter__(member):
            if budget[0] <= 0:
                break
            _gather(nested, tensors, tensor_class, budget)


def _array(tensor: Any, torch: Any) -> Any:
    """Return a view of a tensor's memory; None of what has none to see, or is no numbers.

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
            "strides": tuple(stride * width for stride in tensor.stride()),
            "typestr": f"{'|' if width == 1 else '<'}{kind}{width}",
        }


# ── Their lengths ───────────────────────────────────────────────────────────────────────────────


def _measure_lengths(numpy: Any, arrays: list[Any]) -> list[dict[str, Any]]:
    counts = [
        array for array in arrays if array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 1
    ]
    sizes = {len(array) for array in arrays if array.ndim == 1}
    large = [array for array in arrays if array.ndim in _DIMENSIONS and array.shape[0] > 1]
    large = sorted(large, key=lambda array: -array.nbytes)[:MAX_ARRAYS]
    masks = [array for array in large if array.ndim == 2 and _is_mask(numpy, array)]  # noqa: PLR2004
    data = [array for array in large if not any(array is mask for mask in masks)]
    by_shape: dict[tuple[int, int], RowPadding] = {}
    for padding in (
        candidate for array in data for candidate in _row_paddings(numpy, array, sizes)
    ):
        # Padding is what is so in all arrays of a size: labels end where only few are set.
        previous = by_shape.setdefault((padding.rows, padding.length), padding)
        merged = previous._replace(filled=numpy.fmax(padding.filled, previous.filled))
        by_shape[padding.rows, padding.length] = merged
    paddings = [padding for padding in by_shape.values() if not numpy.isnan(padding.filled).all()]
    return [_describe_length(numpy, padding, counts, masks) for padding in paddings[:MAX_LENGTHS]]


def _is_mask(numpy: Any, array: Any) -> bool:
    """Return whether an array holds truth, or zeros and ones."""
    if array.dtype.kind == "b":
        return True
    sample = array[_spread(array.shape[0], MAX_ROWS), _spread(array.shape[1], MAX_POSITIONS)]
    return array.dtype.kind in "iu" and bool(numpy.isin(sample, (0, 1)).all())


def _row_paddings(numpy: Any, array: Any, sizes: set[int]) -> list[RowPadding]:
    """Return what the rows of an array fill of each dimension that may be their length."""
    if array.dtype.kind not in "iuf":
        return []
    is_batch_first = array.shape[0] in sizes or array.shape[1] not in sizes
    rows_axis = 0 if is_batch_first else 1  # where other tensors show that the batch is the second
    axes = [
        axis for axis in range(array.ndim) if axis != rows_axis and array.shape[axis] >= MIN_LENGTH
    ]
    return [_measure_padding(numpy, array, rows_axis, axis) for axis in axes]


def _measure_padding(numpy: Any, array: Any, rows_axis: int, length_axis: int) -> RowPadding:
    """Measure up to where each row differs from its last position, in all of its channels."""
    n_rows, length, dimensions = array.shape[rows_axis], array.shape[length_axis], array.ndim
    picked, positions = _spread(n_rows, MAX_ROWS), _spread(length, MAX_POSITIONS)
    selection = [_spread(size, MAX_CHANNELS) for size in array.shape]
    selection[rows_axis], selection[length_axis] = picked, positions
    kind = "float" if array.dtype.kind == "f" else "int"
    array = numpy.moveaxis(array[tuple(selection)], (rows_axis, length_axis), (0, 1))
    array = array.reshape(array.shape[0], array.shape[1], -1)
    differs = (array != array[:, -1:]).any(axis=2)
    after = differs.shape[1] - numpy.argmax(differs[:, ::-1], axis=1)  # the last that differs
    ends = positions.start + (after - 1) * positions.step + 1
    ends = numpy.where(ends >= length - positions.step, length, ends)  # one that ends so: no run
    filled = numpy.where(differs.any(axis=1), ends / length, numpy.nan)  # nothing is in the row
    return RowPadding(n_rows, length, kind, dimensions, length_axis, picked, filled)


def _spread(size: int, limit: int) -> slice:
    """Return so many positions at most, evenly spread, the last one among them."""
    step = -(-size // limit)
    return slice((size - 1) % step, size, step)


def _describe_length(
    numpy: Any, padding: RowPadding, counts: list[Any], masks: list[Any]
) -> dict[str, Any]:
    """Return what is reported of a length, by what the batch says of itself where that agrees."""
    source, valid = None, ~numpy.isnan(padding.filled)
    filled = padding.filled[valid]
    tolerance = max(2 / min(padding.length, MAX_POSITIONS), _LENGTH_TOLERANCE)
    for hint, shares in _read_hints(numpy, padding, counts, masks):
        agrees = numpy.abs(shares[padding.picked] - padding.filled)[valid] <= tolerance
        if agrees.mean() >= _MIN_AGREEMENT:
            source, filled = hint, shares
            break
    return {
        "rows": padding.rows,
        "length": padding.length,
        "kind": padding.kind,
        "dimensions": padding.dimensions,
        "along": padding.along,
        "by": source,
        "filled": round(float(filled.mean()), 4),
        "longest": round(float(filled.max()), 4),
        "square": round(float((filled * filled).mean()), 4),
    }


def _read_hints(numpy: Any, padding: RowPadding, counts: list[Any], masks: list[Any]) -> Any:
    """Yield the shares that lengths and masks in the batch state."""
    for array in counts:
        if len(array) == padding.rows and array.min() >= 0 and array.max() <= padding.length:
            yield "lengths", array / padding.length
    for array in masks:
        if array.shape == (padding.rows, padding.length) and array.size <= 1 << 20:
            set_ones = numpy.count_nonzero(array, axis=1) / padding.length
            yield "mask", set_ones
            yield "mask", 1 - set_ones
