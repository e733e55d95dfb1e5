"""Products with weights: which rows of work are such, and which have a backward pass."""

from collections.abc import Iterable, Sequence

from gapless.model.work import Work
from gapless.roofline.padding import sizes_of

_LINEAR = "aten::linear"
_ADDMM = "aten::addmm"
_CONVOLUTIONS = ("aten::conv", "aten::_conv", "aten::cudnn_conv", "aten::mkldnn_conv")
_MATRIX = 2  # dimensions


def weight_of(row: Work) -> tuple[int, ...] | None:
    """Return the sizes of the weight that a forward row multiplies; ``None`` for other rows."""
    sizes = sizes_of(row)
    if row.backward or len(sizes) < 2:  # noqa: PLR2004 - an input and a weight
        return None
    if row.operator == _LINEAR or row.operator.startswith(_CONVOLUTIONS):
        return sizes[1]
    if row.operator == _ADDMM and len(sizes) > _MATRIX and len(sizes[0]) == 1:
        return sizes[2]
    return None


def batch_of(row: Work) -> int | None:
    """Return the first size of the input that a forward row multiplies with a weight."""
    input_sizes = input_of(row)
    return input_sizes[0] if input_sizes else None


def input_of(row: Work) -> tuple[int, ...] | None:
    """Return the sizes of what a forward row multiplies with a weight; ``None`` for other rows."""
    if weight_of(row) is None:
        return None
    sizes = sizes_of(row)
    return sizes[1] if row.operator == _ADDMM else sizes[0]


def select_forward_only(rows: Sequence[Work]) -> tuple[Work, ...]:
    """Return the forward products with weights whose sizes no backward product has.

    A backward pass multiplies with the weight, or makes a product of its size.
    """
    backward_sizes = set(_find_backward_sizes(rows))
    weighted_rows = ((row, weight_of(row)) for row in rows if not row.again)
    return tuple(
        row
        for row, weight in weighted_rows
        if weight and _both_orientations(weight).isdisjoint(backward_sizes)
    )


def _find_backward_sizes(rows: Iterable[Work]) -> Iterable[tuple[int, ...]]:
    for row in rows:
        if not row.backward:
            continue
        sizes = sizes_of(row)
        yield from sizes
        if len(sizes) >= 2 and all(len(size) == _MATRIX for size in sizes[:2]):  # noqa: PLR2004
            yield (sizes[0][0], sizes[1][1])


def _both_orientations(weight: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return the sizes of a weight, and of its transpose."""
    return {weight, weight[::-1]} if len(weight) == _MATRIX else {weight}
