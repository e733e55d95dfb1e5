"""Collectives that threads of the host carry out, where there is no device (docs: the account, 10).

gloo marks each of them on the thread that carries it out. The training thread waits without a
frame, and what it waits for ends about when it goes on.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.accounting.charges import NO_CHARGES, Charges, charges
from gapless.accounting.intervals import Lane, cover
from gapless.accounting.steps import find_steps
from gapless.accounting.sweep import sweep_device
from gapless.accounting.threads import Threads, user_ranges
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective, Int64

_CARRIED: Final = re.compile(r"^gloo:")
_AFTER: Final = 5_000_000  # ns [G]: who waits may go on before the mark ends (2.7 ms was seen)


@dataclass(frozen=True)
class Carried:
    """Collectives on threads other than main, in order of start."""

    event: Int64
    start: Int64
    end: Int64
    what: tuple[Collective, ...]
    alike: list[Int64]  # rows of the same kind: the same place among those of its name in a step


def carried(threads: Threads) -> Carried:
    """Give the collectives that the threads of a capture carried out."""
    events = threads.trace.events
    rows = user_ranges(threads.trace, _CARRIED)
    rows = rows[events.track[rows] != threads.main]
    names: list[int] = events.name[rows].tolist()
    start, end = events.start[rows], events.end[rows]
    what = tuple(Collective(threads.trace.names[name]) for name in names)
    return Carried(rows, start, end, what, _alike(threads, start, names))


def _alike(threads: Threads, start: Int64, names: list[int]) -> list[Int64]:
    steps = find_steps(threads)
    bounds = start[:0] if steps is None else steps.boundaries
    step: list[int] = np.searchsorted(bounds, start, side="right").tolist()
    seen: dict[tuple[int, int], int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(step, names, strict=True)):
        place = seen[key] = seen.get(key, -1) + 1
        groups.setdefault((key[1], place), []).append(row)
    return [np.array(rows, np.int64) for rows in groups.values()]


def waited(own: Carried, holes: Charges) -> tuple[Charges, Charges]:
    """Cut stretches in which main has no frame: what it waited for a collective, and the rest.

    It waited up to the last end of a collective in the stretch, or right after it: by no more than
    the stretch is long. Before another end it was at work meanwhile. ``query`` of the first is the
    row of ``own`` that came first of those under way.
    """
    ends = np.sort(own.end)
    if not len(ends):
        return NO_CHARGES, holes
    after = np.minimum(holes.end - holes.start, _AFTER)
    at = np.searchsorted(ends, holes.end + after, side="right") - 1
    until = np.where(at >= 0, np.minimum(ends[at], holes.end), holes.start)
    until = np.maximum(until, holes.start)
    lane = sweep_device(own.start, own.end, np.zeros(len(ends), np.int64))
    cut = cover(lane, holes.start, until)
    inside = cut.piece >= 0
    row = lane.owner[cut.piece[inside]]
    found = charges(
        cut.start[inside], cut.end[inside], LEAF["comm.exposed"], own.event[row], query=row
    )
    return found, _left(holes, found)


def _left(holes: Charges, taken: Charges) -> Charges:
    cut = cover(Lane(taken.start, taken.end, taken.query), holes.start, holes.end)
    free = cut.piece < 0
    query = holes.query[cut.query[free]]
    return charges(cut.start[free], cut.end[free], 0, query=query)
