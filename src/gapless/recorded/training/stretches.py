"""Stretches of a process whose marks were summed, since there were too many to keep one by one.

How much of a stretch each kind of call took is known, but not where in it. All sums are requested
here; kept marks are not part of them.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from gapless import wire
from gapless.accounting.intervals import Lane, cover, subtract
from gapless.model.recording import Process, Sums
from gapless.model.trace import Int64


class SummedCalls(Struct, frozen=True):
    """Summed marks in columns, a row for each stretch and kind, thread, subject and flags."""

    stretch: Int64  # its number
    kind: Int64
    flags: Int64
    subject: Int64
    thread: Int64
    count: Int64
    total: Int64
    longest: Int64

    def take(self, rows: Int64 | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "SummedCalls":
        """Select rows."""
        return SummedCalls(**{name: column[rows] for name, column in asdict(self).items()})

    def select(
        self, *kinds: int, subject: int | None = None, thread: int | None = None
    ) -> "SummedCalls":
        """Select the rows of some kinds, and of one subject or thread."""
        is_selected = np.isin(self.kind, kinds)
        if subject is not None:
            is_selected &= self.subject == subject
        if thread is not None:
            is_selected &= self.thread == thread
        return self.take(is_selected)

    def without(self, flags: int) -> "SummedCalls":
        """Select the rows that have none of some flags."""
        return self.take((self.flags & flags) == 0)

    def with_inner(self, inner: "SummedCalls") -> "SummedCalls":
        """Add the time of calls inside these, summed apart: in each stretch to the first."""
        stretch, first_rows = np.unique(self.stretch, return_index=True)
        positions = np.searchsorted(stretch, inner.stretch)
        is_known = np.isin(inner.stretch, stretch)
        total = self.total.copy()
        np.add.at(total, first_rows[positions[is_known]], inner.total[is_known])
        return replace(self, total=total)


class Stretches(Struct, frozen=True):
    """The stretches of a process, in order and disjoint, and what was summed in them."""

    start: Int64
    end: Int64
    calls: SummedCalls

    def __len__(self) -> int:
        """Count the stretches."""
        return len(self.start)

    def stretches_with(self, calls: SummedCalls) -> Lane:
        """Return the stretches that hold given calls."""
        numbers = np.unique(calls.stretch)
        return Lane(self.start[numbers], self.end[numbers], numbers)


def find_stretches(process: Process) -> Stretches:
    """Return the stretches of a process whose marks were summed; none where all were kept.

    A kept mark of a model's mode ends one; what the next one holds comes after that mark.
    """
    sums = process.mark_sums or Sums(_NO_SUMS)
    columns = sums.columns
    end, inverse = np.unique(columns["end"], return_inverse=True)
    start = np.full(len(end), np.iinfo(np.int64).max)
    np.minimum.at(start, inverse, columns["start"])
    start = np.maximum(start, np.concatenate(([process.start], end[:-1]))[: len(end)])
    call_fields = ("kind", "flags", "subject", "thread", "count", "total", "longest")
    calls = SummedCalls(inverse.astype(np.int64), **{name: columns[name] for name in call_fields})
    modes = np.sort(process.marks.start[process.marks.kind == wire.MODE])
    last_mode = np.append(modes, [process.start])[np.searchsorted(modes, end, side="right") - 1]
    return Stretches(np.minimum(np.maximum(start, last_mode), end), end, calls)


_NO_SUMS = {name: np.empty(0, np.int64) for name in wire.MARK_SUM_FIELDS}


def lay_out(stretches: Stretches, amounts: Int64, occupied: Lane) -> tuple[Int64, Int64, Int64]:
    """Lay amounts, [stretch, code], out one after another in the free time of each stretch.

    Returns start, end and code of the pieces. What has no room is cut off: parts never exceed the
    whole.
    """
    free = subtract(Lane(stretches.start, stretches.end, np.arange(len(stretches))), occupied)
    room_ns = np.zeros(len(stretches), np.int64)
    np.add.at(room_ns, free.owner, free.end - free.start)
    # Free time is put together, filled, and taken apart again.
    ends = np.cumsum(free.end - free.start)
    packed = Lane(ends - (free.end - free.start), ends, free.owner)
    cumulative = np.minimum(np.cumsum(amounts, axis=1), room_ns[:, None])
    bounds = (np.cumsum(room_ns) - room_ns)[:, None] + np.insert(cumulative, 0, 0, axis=1)
    cut = cover(packed, bounds[:, :-1].ravel(), bounds[:, 1:].ravel())
    shift = free.start[cut.piece] - packed.start[cut.piece]
    return cut.start + shift, cut.end + shift, cut.query % amounts.shape[1]


def share_out(total: Int64, weights: Int64, total_weight: int) -> Int64:
    """Divide totals by weights, [total, weight]; exactly, if the weights are whole numbers."""
    cumulative = np.cumsum(weights.astype(np.float64)) / max(1, total_weight)
    edges = np.floor(cumulative[None, :] * total[:, None]).astype(np.int64)
    return np.diff(edges, axis=1, prepend=0)
