"""How far Kineto's clock is from the recorder's, from ranges that both saw.

At both edges of an own window the recorder emits empty ranges "gapless:clock" and reads its clock
(CLOCK_MONOTONIC) before and after each. A range lies between its two readings, so each bounds the
offset from both sides; the bounds of one edge meet, the two edges show the drift between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.model.trace import Int64, Trace

CLOCK: Final = "gapless:clock"
STEP: Final = "gapless:step"
_MOST: Final = 10_000  # ranges of a name: more are not of a window of ours
Readings = Sequence[Sequence[tuple[int, int]]]  # of each edge: (before, after) of each range, in ns


@dataclass(frozen=True)
class Seen:
    """Our ranges as a window shows them, in ns on Kineto's clock, in the order of time."""

    clock: tuple[tuple[int, int], ...]  # start and end
    steps: tuple[int, ...]  # starts: each right after a step's end
    resolution_ns: int


def seen(trace: Trace) -> Seen | None:
    """Give the ranges that a window of ours has; ``None`` where there are none.

    Kineto's clock is the trace's axis and ``origin_ns``.
    """
    start, end = _ranges(trace, CLOCK)
    if not 0 < len(start) < _MOST:
        return None
    steps, _ = _ranges(trace, STEP)
    pairs = zip(start.tolist(), end.tolist(), strict=True)
    return Seen(tuple(pairs), tuple(steps[:_MOST].tolist()), trace.health.resolution_ns)


def match(ranges: Seen, readings: Readings) -> tuple[int, int] | None:
    """Give (offset_ns, error_ns): Kineto's clock less the recorder's in the middle of the window.

    The error is half the tightest bracket at either edge (the file's resolution included) and half
    the drift between them, rounded up. ``None`` where the trace does not show the ranges that the
    readings belong to.
    """
    if len(ranges.clock) != sum(len(edge) for edge in readings):
        return None
    spans = np.array(ranges.clock, np.int64)
    edges, at = list[tuple[int, int]](), 0
    for edge in readings:
        if len(edge):
            part = spans[at : at + len(edge)]
            edges.append(_bracket(part[:, 0], part[:, 1], np.array(edge, np.int64)))
            at += len(edge)
    middles = [low + high for low, high in edges]  # doubled: times stay integers
    drift = max(middles) - min(middles)
    widest = max(abs(high - low) for low, high in edges)
    offset = (max(middles) + min(middles)) // 4
    return offset, -(-widest // 2) + ranges.resolution_ns - 1 + -(-drift // 4)


def _ranges(trace: Trace, called: str) -> tuple[Int64, Int64]:
    """Give start and end of the ranges of a name, in the order of time."""
    events = trace.events
    name = trace.names.index(called) if called in trace.names else -1
    found = np.flatnonzero((events.name == name) & (events.end >= events.start))
    found = found[np.argsort(events.start[found], kind="stable")]
    return events.start[found] + trace.origin_ns, events.end[found] + trace.origin_ns


def _bracket(start: Int64, end: Int64, readings: Int64) -> tuple[int, int]:
    """Give the bounds of the offset that all ranges of an edge allow.

    Where they contradict one another (a clock was set meanwhile), the bounds of the tightest.
    """
    low, high = end - readings[:, 1], start - readings[:, 0]
    if low.max() <= high.min():
        return int(low.max()), int(high.min())
    tightest = int(np.argmin(high - low))
    return int(low[tightest]), int(high[tightest])
