"""How far Kineto's clock is from the recorder's, by ranges that both saw.

At both edges of a recorded window the recorder emits empty ranges "gapless:clock" and reads its
clock (CLOCK_MONOTONIC) before and after each. A range lies between its two readings, so each bounds
the offset from both sides; the bounds of one edge meet, the two edges show the drift between them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model import category
from gapless.model.trace import Int64, Trace

CLOCK: Final = "gapless:clock"
STEP: Final = "gapless:step"
_MAX_RANGES: Final = 10_000  # ranges of a name: more are not of a window of ours
Readings = Sequence[Sequence[tuple[int, int]]]  # of each edge: (before, after) of each range, in ns


class ClockRanges(Struct, frozen=True):
    """Our ranges as a window shows them, in ns on Kineto's clock, in the order of time."""

    clock: tuple[tuple[int, int], ...]  # start and end
    steps: tuple[int, ...]  # starts: each right after a step's end
    resolution_ns: int


def clock_ranges(trace: Trace) -> ClockRanges | None:
    """Return the ranges that a window of ours has; ``None`` where there are none.

    Kineto's clock is the trace's axis and ``origin_ns``.
    """
    start, end = _find_ranges(trace, CLOCK)
    if not 0 < len(start) < _MAX_RANGES:
        return None
    steps, _ = _find_ranges(trace, STEP)
    pairs = zip(start.tolist(), end.tolist(), strict=True)
    return ClockRanges(
        tuple(pairs), tuple(steps[:_MAX_RANGES].tolist()), trace.health.resolution_ns
    )


def match_clocks(ranges: ClockRanges, readings: Readings) -> tuple[int, int] | None:
    """Return (offset_ns, error_ns): Kineto's clock less the recorder's in the middle of the window.

    The error is half the tightest bracket at either edge (the file's resolution included) and half
    the drift between them, rounded up. ``None`` where the trace does not show the ranges that the
    readings belong to.
    """
    if len(ranges.clock) != sum(len(edge) for edge in readings):
        return None
    spans = np.array(ranges.clock, np.int64)
    edges, position = list[tuple[int, int]](), 0
    for edge in readings:
        if len(edge):
            edge_spans = spans[position : position + len(edge)]
            edges.append(_bracket(edge_spans[:, 0], edge_spans[:, 1], np.array(edge, np.int64)))
            position += len(edge)
    middles = [low + high for low, high in edges]  # doubled: times stay integers
    drift = max(middles) - min(middles)
    widest = max(abs(high - low) for low, high in edges)
    offset = (max(middles) + min(middles)) // 4
    return offset, -(-widest // 2) + ranges.resolution_ns - 1 + -(-drift // 4)


def cut_open_ranges(trace: Trace) -> Trace:
    """Return the trace with what was open when a window of ours closed ended there.

    Steps end within an optimizer's step, and the profiler is stopped there: what is open then (the
    range of that step) would be as long as stopping took, 50 ms and more.
    """
    clock_start, _ = _find_ranges(trace, CLOCK)
    step_start, _ = _find_ranges(trace, STEP)
    closing = clock_start[clock_start > step_start.max()] if len(step_start) else clock_start[:0]
    if not len(closing):
        return trace
    close, events = closing.min() - trace.origin_ns, trace.events
    is_open = (events.start < close) & (events.end > close)
    is_open &= np.isin(events.category, (category.CPU_OP, category.USER_ANNOTATION))
    end = np.where(is_open, close, events.end)
    end.setflags(write=False)
    return replace(trace, events=replace(events, end=end)) if is_open.any() else trace


def _find_ranges(trace: Trace, range_name: str) -> tuple[Int64, Int64]:
    """Return start and end of the ranges of a name, in the order of time."""
    events = trace.events
    name_index = trace.names.index(range_name) if range_name in trace.names else -1
    rows = np.flatnonzero((events.name == name_index) & (events.end >= events.start))
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    return events.start[rows] + trace.origin_ns, events.end[rows] + trace.origin_ns


def _bracket(start: Int64, end: Int64, readings: Int64) -> tuple[int, int]:
    """Return the bounds of the offset that all ranges of an edge allow.

    Where they contradict one another (a clock was set meanwhile), the bounds of the tightest.
    """
    low, high = end - readings[:, 1], start - readings[:, 0]
    if low.max() <= high.min():
        return int(low.max()), int(high.min())
    tightest = int(np.argmin(high - low))
    return int(low[tightest]), int(high[tightest])
