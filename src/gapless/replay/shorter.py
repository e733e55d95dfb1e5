"""What shorter rows would leave of a step: found by the sizes of operators' inputs.

What goes over a batch of padded rows has their length among its sizes, or what convolutions with a
stride have left of it, beside the batch (or both in one dimension). Of its calls' time a part is
fixed, the rest goes with the length; what has the length twice (attention's scores) with its
square. Rows that were packed into one have neither, and are left alone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gapless.model.facts import Filling
from gapless.model.interval import Interval
from gapless.model.work import Work
from gapless.replay.roofline import SAME

_STRIDES: Final = (1, 2, 4, 8, 16)
_STRIDED: Final = re.compile(r"conv|pool|stft|unfold")
_SHORTEST: Final = 8  # positions: below, any size may be one by chance
_NEAR: Final = 2  # positions that kernels without padding at the ends cut off
_CALL_NS: Final = 3_500.0  # of an operator on a processor, whatever its size (see ``optimizing``)
_FIXED: Final = 0.9  # of a call at the most
_OPTIMIZER: Final = "busy.optimizer"
# How much of what is not fixed goes with the length: all of it, most, or, since shorter rows make
# smaller products, which are less efficient, and other dimensions may only look like the length,
# little more than half.
_GOES: Final = Interval(1.0, 0.9, 0.6)


@dataclass(frozen=True)
class Aim:
    """What is left of the length: filled by the mean row, likely, and without any sorting."""

    linear: Interval
    squared: Interval


def aim_of(filling: Filling) -> Aim:
    """Give what batches of like lengths would leave of the length of rows, and of its square.

    At best each row is as long as its batch; at worst rows are only cut where the longest of their
    batch ends, or three quarters of the padding go, since a sampler sorts a part of the data only.
    """
    whole = filling.filled
    worst = min(filling.longest, whole + 0.25 * (1 - whole))
    worst = max(worst, whole)
    likely = min(worst, whole + 0.05 * (1 - whole))
    beyond = (0.0, likely * likely - whole * whole, worst * worst - whole * whole)
    return Aim(
        Interval(whole, likely, worst),
        Interval(*(min(1.0, filling.square + more) for more in beyond)),
    )


def shortened(
    rows: Sequence[Work], filling: Filling, kernel_ns: float | None
) -> Callable[[Work], Interval]:
    """Give the factor by which rows of work take another time with such batches."""
    aim, lengths = aim_of(filling), _lengths_of(rows, filling)

    def factor(work: Work) -> Interval:
        times = lengths.times(work)
        if not times or not work.ns:
            return SAME
        each = work.launches * (kernel_ns or 0.0) if work.launches else work.calls * _CALL_NS
        fixed = min(_FIXED, each / work.ns)
        left = aim.squared if times > 1 else aim.linear
        return Interval(
            *(
                1 - (1 - fixed) * goes * (1 - to)
                for goes, to in zip(_three(_GOES), _three(left), strict=True)
            )
        )

    return factor


def with_length(rows: Sequence[Work], filling: Filling) -> tuple[Work, ...]:
    """Give the rows of work that go over padded batches."""
    lengths = _lengths_of(rows, filling)
    return tuple(one for one in rows if lengths.times(one))


def looked_up(rows: Sequence[Work], filling: Filling) -> bool:
    """Tell whether batches of just this size are looked up in a table."""
    return any(
        "embedding" in one.operator
        and any(size == (filling.rows, length) for size in sizes_of(one))
        for one in rows
        for length in filling.lengths
    )


def sizes_of(work: Work) -> list[tuple[int, ...]]:
    """Read sizes as they are told: "[96, 1024, 64] [96, 64, 1024]"."""
    found = re.findall(r"\[([\d, ]*)\]", work.inputs or "")
    return [tuple(int(one) for one in text.split(",") if one.strip()) for text in found]


@dataclass(frozen=True)
class _Lengths:
    """By which sizes a tensor of padded rows is known."""

    rows: int
    lengths: frozenset[int]
    parameters: frozenset[tuple[int, ...]]  # tensors of such sizes are none

    def times(self, work: Work) -> int:
        """Count how often the length is among the sizes of a tensor that holds the batch, too."""
        if work.leaf == _OPTIMIZER:
            return 0
        sizes = (one for one in sizes_of(work) if one not in self.parameters)
        found = max((self._in_one(one) for one in sizes), default=0)
        return 2 if found and "attention" in work.operator else found

    def _in_one(self, size: tuple[int, ...]) -> int:
        if any(one % self.rows == 0 and one // self.rows in self.lengths for one in size):
            return 1
        found = [at for at, one in enumerate(size) if one in self.lengths]
        beside = any(at not in found[:1] and one % self.rows == 0 for at, one in enumerate(size))
        if not found or not beside:
            return 0
        scores = len(size) > 2 and size[-1] == size[-2] and size[-1] in self.lengths  # noqa: PLR2004
        return 2 if scores else 1


def _lengths_of(rows: Sequence[Work], filling: Filling) -> _Lengths:
    """Give the lengths that batches have on their way through a model, and what is a parameter."""
    strides = _STRIDES if any(_STRIDED.search(one.operator) for one in rows) else (1,)
    lengths = frozenset(
        one
        for length in filling.lengths
        for stride in strides
        for one in _near(-(-length // stride), 0 if stride == 1 else _NEAR)
        if one >= _SHORTEST
    )
    known = {size for one in rows if one.leaf == _OPTIMIZER for size in sizes_of(one)}
    return _Lengths(filling.rows, lengths, frozenset(known | {one[::-1] for one in known}))


def _near(length: int, away: int) -> range:
    return range(length - away, length + away + 1)


def _three(one: Interval) -> tuple[float, float, float]:
    return one.low, one.mid, one.high
