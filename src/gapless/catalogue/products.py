"""Products with weights: which rows of work are some, and which of them a backward pass follows."""

from collections.abc import Iterable, Sequence

from gapless.model.work import Work
from gapless.replay.shorter import sizes_of

_LINEAR = "aten::linear"
_ADDMM = "aten::addmm"
_CONVOLUTIONS = ("aten::conv", "aten::_conv", "aten::cudnn_conv", "aten::mkldnn_conv")
_MATRIX = 2  # dimensions


def weight_of(row: Work) -> tuple[int, ...] | None:
    """Give the sizes of the weight that a forward row multiplies with; ``None``: it is no such."""
    sizes = sizes_of(row)
    if row.backward or len(sizes) < 2:  # noqa: PLR2004 - an input and a weight
        return None
    if row.operator == _LINEAR or row.operator.startswith(_CONVOLUTIONS):
        return sizes[1]
    if row.operator == _ADDMM and len(sizes) > _MATRIX and len(sizes[0]) == 1:
        return sizes[2]
    return None


def batch_of(row: Work) -> int | None:
    """Give the first size of what a forward row multiplies with a weight."""
    if weight_of(row) is None:
        return None
    sizes = sizes_of(row)
    first = sizes[1] if row.operator == _ADDMM else sizes[0]
    return first[0] if first else None


def unfollowed(rows: Sequence[Work]) -> tuple[Work, ...]:
    """Give the forward products with weights of sizes that no product of a backward pass has.

    A backward pass multiplies with the weight, or makes a product of its size.
    """
    followed = set(_sizes_of_backward(rows))
    found = ((one, weight_of(one)) for one in rows if not one.again)
    return tuple(one for one, weight in found if weight and _either(weight).isdisjoint(followed))


def _sizes_of_backward(rows: Iterable[Work]) -> Iterable[tuple[int, ...]]:
    for one in rows:
        if not one.backward:
            continue
        sizes = sizes_of(one)
        yield from sizes
        if len(sizes) >= 2 and all(len(size) == _MATRIX for size in sizes[:2]):  # noqa: PLR2004
            yield (sizes[0][0], sizes[1][1])


def _either(weight: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Give the sizes of a weight, and of it transposed."""
    return {weight, weight[::-1]} if len(weight) == _MATRIX else {weight}
