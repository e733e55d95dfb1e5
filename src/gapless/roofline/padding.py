"""What shorter rows would leave of a step: found by the sizes of operators' inputs.

What passes over a batch of padded rows has their length among its sizes, or what strided
convolutions have left of it, along with the batch (or both in one dimension). A part of its calls'
time is fixed, the rest is proportional to the length; what has the length twice (attention's
scores), to its square. Rows that were packed into one have neither, and are left alone. What a
recurrent network does outside of its own operator, as on the CPU when it goes back, is done once a
position: there are fewer calls, each as long as it was.
"""

import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.estimate import Estimate
from gapless.model.facts import PaddingStats
from gapless.model.work import Work
from gapless.roofline.roofline import NO_CHANGE

_STRIDES: Final = (1, 2, 4, 8, 16)
_RECURRENT: Final = re.compile(r"^aten::(gru|lstm|rnn_tanh|rnn_relu)$")
# What its cells, and their backward passes, consist of.
_CELL: Final = re.compile(
    r"^aten::(unsafe_)?(linear|addmm|mm|matmul|sigmoid|tanh|relu|threshold|mul|add|sub|rsub|neg|sum"
    r"|chunk|split|unbind|select|narrow|slice|cat|stack|t|transpose|view|expand|as_strided|copy"
    r"|clone|fill|empty_like|empty_strided|resolve_conj)(_backward|_with_sizes)?_?$"
)
_PICTURES: Final = 4  # dimensions: a cell's tensors have fewer
_STRIDED: Final = re.compile(r"conv|pool|stft|unfold")
_MIN_LENGTH: Final = 8  # positions: below, any size may be one by chance
_MAX_CUT: Final = 2  # positions that kernels without padding at the ends cut off
# of an operator on a processor, whatever its size (see ``queries.optimizer_steps``)
_CALL_NS: Final = 3_500.0
_MAX_FIXED_SHARE: Final = 0.9  # of a call, at most
_OPTIMIZER: Final = "busy.optimizer"
# How much of what is not fixed goes with the length: all of it, most, or, since shorter rows make
# smaller products, which are less efficient, and other dimensions may only look like the length,
# little more than half.
_LENGTH_SHARE: Final = Estimate(1.0, 0.9, 0.6)


class LengthTarget(Struct, frozen=True):
    """What remains of the length: filled by the mean row, likely, and without any sorting."""

    linear: Estimate
    squared: Estimate


def length_target(padding: PaddingStats) -> LengthTarget:
    """Return what batches of like lengths would leave of the length of rows, and of its square.

    At best each row is as long as its batch; at worst rows are only cut where the longest of their
    batch ends, or three quarters of the padding go, since a sampler sorts a part of the data only.
    """
    filled = padding.filled
    worst = min(padding.longest, filled + 0.25 * (1 - filled))
    worst = max(worst, filled)
    likely = min(worst, filled + 0.05 * (1 - filled))
    beyond = (0.0, likely * likely - filled * filled, worst * worst - filled * filled)
    return LengthTarget(
        Estimate(filled, likely, worst),
        Estimate(*(min(1.0, padding.square + extra) for extra in beyond)),
    )


def shorten_factor(
    rows: Sequence[Work], padding: PaddingStats, kernel_ns: float | None
) -> Callable[[Work], Estimate]:
    """Return the factor on the time of rows of work with such batches."""
    target, lengths = length_target(padding), _lengths_of(rows, padding)

    def factor(work: Work) -> Estimate:
        times = lengths.times(work)
        if not times or not work.ns:
            return NO_CHANGE
        if lengths.is_per_position(work):
            return target.linear
        call_ns = work.launches * (kernel_ns or 0.0) if work.launches else work.calls * _CALL_NS
        fixed = min(_MAX_FIXED_SHARE, call_ns / work.ns)
        remaining = target.squared if times > 1 else target.linear
        return Estimate(
            *(
                1 - (1 - fixed) * goes * (1 - left_share)
                for goes, left_share in zip(_points(_LENGTH_SHARE), _points(remaining), strict=True)
            )
        )

    return factor


def rows_with_length(rows: Sequence[Work], padding: PaddingStats) -> tuple[Work, ...]:
    """Return the rows of work that go over padded batches."""
    lengths = _lengths_of(rows, padding)
    return tuple(row for row in rows if lengths.times(row))


def find_host_factor(rows: Sequence[Work], padding: PaddingStats) -> Estimate:
    """Return what would be left of the host's time for calls, as far as there would be fewer."""
    lengths, linear = _lengths_of(rows, padding), length_target(padding).linear
    n_calls = sum(row.calls for row in rows)
    share = sum(row.calls for row in rows if lengths.is_per_position(row)) / max(1, n_calls)
    return Estimate(*(1 - share * (1 - left_share) for left_share in _points(linear)))


def is_looked_up(rows: Sequence[Work], padding: PaddingStats) -> bool:
    """Return whether batches of just this size are looked up in a table."""
    return any(
        "embedding" in row.operator
        and any(size == (padding.rows, length) for size in sizes_of(row))
        for row in rows
        for length in padding.lengths
    )


def sizes_of(work: Work) -> list[tuple[int, ...]]:
    """Read sizes as they are recorded: "[96, 1024, 64] [96, 64, 1024]"."""
    texts = re.findall(r"\[([\d, ]*)\]", work.inputs or "")
    return [tuple(int(number) for number in text.split(",") if number.strip()) for text in texts]


class _Lengths(Struct, frozen=True):
    """The sizes by which a tensor of padded rows is recognised."""

    rows: int
    lengths: frozenset[int]
    parameters: frozenset[tuple[int, ...]]  # tensors of such sizes do not count
    min_calls: float = 0.0  # of what is done once a position; 0: nothing is

    def is_per_position(self, work: Work) -> bool:
        """Return whether a recurrent network does this for each position."""
        is_often = 0 < self.min_calls <= work.calls and work.leaf != _OPTIMIZER
        return (
            is_often
            and _CELL.match(work.operator) is not None
            and all(len(size) < _PICTURES for size in sizes_of(work))
        )

    def times(self, work: Work) -> int:
        """Count how often the length is among the sizes of a tensor that holds the batch, too."""
        if work.leaf == _OPTIMIZER:
            return 0
        if self.is_per_position(work):
            return 1
        sizes = (size for size in sizes_of(work) if size not in self.parameters)
        count = max((self._count_in(size) for size in sizes), default=0)
        return 2 if count and "attention" in work.operator else count

    def _count_in(self, size: tuple[int, ...]) -> int:
        if any(extent % self.rows == 0 and extent // self.rows in self.lengths for extent in size):
            return 1
        positions = [position for position, extent in enumerate(size) if extent in self.lengths]
        has_batch = any(
            position not in positions[:1] and extent % self.rows == 0
            for position, extent in enumerate(size)
        )
        if not positions or not has_batch:
            return 0
        scores = len(size) > 2 and size[-1] == size[-2] and size[-1] in self.lengths  # noqa: PLR2004
        return 2 if scores else 1


def _lengths_of(rows: Sequence[Work], padding: PaddingStats) -> _Lengths:
    """Return the lengths of batches on their way through a model, and the sizes of parameters."""
    strides = _STRIDES if any(_STRIDED.search(row.operator) for row in rows) else (1,)
    lengths = frozenset(
        extent
        for length in padding.lengths
        for stride in strides
        for extent in _nearby(-(-length // stride), 0 if stride == 1 else _MAX_CUT)
        if extent >= _MIN_LENGTH
    )
    parameter_sizes = {size for row in rows if row.leaf == _OPTIMIZER for size in sizes_of(row)}
    sizes = _Lengths(
        padding.rows, lengths, frozenset(parameter_sizes | {size[::-1] for size in parameter_sizes})
    )
    n_passes = sum(row.calls for row in rows if _RECURRENT.match(row.operator) and sizes.times(row))
    return replace(sizes, min_calls=n_passes * median(padding.lengths))


def _nearby(length: int, away: int) -> range:
    return range(length - away, length + away + 1)


def _points(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.low, estimate.mid, estimate.high
