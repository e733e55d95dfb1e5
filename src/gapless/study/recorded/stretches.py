"""Stretches of a process whose marks were summed, since there were too many to keep one by one.

Of a stretch it is known how much of it each kind of call took, and not where in it. All that asks
for sums asks here; where marks were kept, nothing is said.
"""

from dataclasses import dataclass, replace

import numpy as np

from gapless import wire
from gapless.accounting.intervals import Lane, cover, subtract
from gapless.model.recording import Process, Sums
from gapless.model.trace import Int64


@dataclass(frozen=True)
class Calls:
    """Summed marks in columns, a row for each stretch and kind, thread, subject and flags."""

    stretch: Int64  # its number
    kind: Int64
    flags: Int64
    subject: Int64
    thread: Int64
    count: Int64
    total: Int64
    longest: Int64

    def take(self, rows: Int64 | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "Calls":
        """Select rows."""
        return Calls(**{name: column[rows] for name, column in vars(self).items()})

    def of(self, *kinds: int, subject: int | None = None, thread: int | None = None) -> "Calls":
        """Select the rows of some kinds, and of one subject or thread."""
        mine = np.isin(self.kind, kinds)
        if subject is not None:
            mine &= self.subject == subject
        if thread is not None:
            mine &= self.thread == thread
        return self.take(mine)

    def without(self, flags: int) -> "Calls":
        """Select the rows that have none of some flags."""
        return self.take((self.flags & flags) == 0)

    def with_inner(self, inner: "Calls") -> "Calls":
        """Add the time of calls inside these, summed apart: in each stretch to the first."""
        stretch, at = np.unique(self.stretch, return_index=True)
        place = np.searchsorted(stretch, inner.stretch)
        held = np.isin(inner.stretch, stretch)
        total = self.total.copy()
        np.add.at(total, at[place[held]], inner.total[held])
        return replace(self, total=total)


@dataclass(frozen=True)
class Stretches:
    """The stretches of a process, in order and disjoint, and what was summed in them."""

    start: Int64
    end: Int64
    calls: Calls

    def __len__(self) -> int:
        """Count the stretches."""
        return len(self.start)

    def holding(self, calls: Calls) -> Lane:
        """Give the stretches that hold some calls."""
        held = np.unique(calls.stretch)
        return Lane(self.start[held], self.end[held], held)


def stretches(process: Process) -> Stretches:
    """Give the stretches of a process whose marks were summed; none where all were kept.

    A kept mark of a model's mode ends one; what the next one holds comes after that mark.
    """
    sums = process.mark_sums or Sums(_NOTHING)
    columns = sums.columns
    end, at = np.unique(columns["end"], return_inverse=True)
    start = np.full(len(end), np.iinfo(np.int64).max)
    np.minimum.at(start, at, columns["start"])
    start = np.maximum(start, np.concatenate(([process.start], end[:-1]))[: len(end)])
    rest = ("kind", "flags", "subject", "thread", "count", "total", "longest")
    calls = Calls(at.astype(np.int64), **{name: columns[name] for name in rest})
    modes = np.sort(process.marks.start[process.marks.kind == wire.MODE])
    last = np.append(modes, [process.start])[np.searchsorted(modes, end, side="right") - 1]
    return Stretches(np.minimum(np.maximum(start, last), end), end, calls)


_NOTHING = {name: np.empty(0, np.int64) for name in wire.MARK_SUM_FIELDS}


def laid_out(found: Stretches, amounts: Int64, taken: Lane) -> tuple[Int64, Int64, Int64]:
    """Lay amounts, [stretch, code], out one after another in what is not taken of each stretch.

    Gives start, end and code of the pieces. What has no room is cut off: parts are never more than
    the whole.
    """
    free = subtract(Lane(found.start, found.end, np.arange(len(found))), taken)
    room = np.zeros(len(found), np.int64)
    np.add.at(room, free.owner, free.end - free.start)
    # Free time is put together, filled, and taken apart again.
    ends = np.cumsum(free.end - free.start)
    together = Lane(ends - (free.end - free.start), ends, free.owner)
    upto = np.minimum(np.cumsum(amounts, axis=1), room[:, None])
    bounds = (np.cumsum(room) - room)[:, None] + np.insert(upto, 0, 0, axis=1)
    cut = cover(together, bounds[:, :-1].ravel(), bounds[:, 1:].ravel())
    moved = free.start[cut.piece] - together.start[cut.piece]
    return cut.start + moved, cut.end + moved, cut.query % amounts.shape[1]


def shared(total: Int64, weights: Int64, whole: int) -> Int64:
    """Share totals out by weights, [total, weight]; where the weights are ``whole``, exactly."""
    upto = np.cumsum(weights.astype(np.float64)) / max(1, whole)
    edges = np.floor(upto[None, :] * total[:, None]).astype(np.int64)
    return np.diff(edges, axis=1, prepend=0)
