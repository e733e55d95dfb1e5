"""Whether steps are slower after the first window than before it: what a profiler leaves behind.

Torch's profiler stays attached to the driver of a CUDA device when it has stopped (pytorch issue
144455), which makes each launch slower from then on, where a window could not have it detached
(benchmarks/after_windows.py). Something else may have changed, too: a queue that was not full
yet.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.recording import Process
from gapless.model.run import ProfilerSlowdown
from gapless.model.trace import Int64
from gapless.recorded.training.edges import Bool, Edges

_MIN_STEPS: Final = 5  # steps on either side
_MIN_SLOWDOWN: Final = 1.05  # times, or nothing is reported
_EXCLUDED_MARKS: Final = (wire.NEXT, wire.COLLECTOR, wire.CHECKPOINT, wire.LOGGING, wire.PROFILING)


class _Sides(Struct, frozen=True):
    """What steps took besides waits for data and rare events, before and after, in ns."""

    before: Int64
    behind: Int64


def find_slowdown(process: Process, edges: Edges, is_counted: Bool) -> ProfilerSlowdown | None:
    """Return what steps took before and after the first window, if they are slower after it.

    ``None`` without a device, and where the profiler was detached: nothing is left behind then.
    """
    if process.windows and all(window.detached for window in process.windows):
        return None
    return compare_sides(process, edges, is_counted)


def compare_sides(process: Process, edges: Edges, is_counted: Bool) -> ProfilerSlowdown | None:
    """Return the same, whatever the windows record about their profiler."""
    sides = _sides(process, edges, is_counted)
    if sides is None:
        return None
    behind_low, before_high = np.quantile(sides.behind, 0.25), np.quantile(sides.before, 0.75)
    before, behind = float(np.median(sides.before)), float(np.median(sides.behind))
    if behind_low <= before_high or behind < _MIN_SLOWDOWN * before:
        return None
    return ProfilerSlowdown(len(sides.before), round(before), round(behind))


def _sides(process: Process, edges: Edges, is_counted: Bool) -> _Sides | None:
    marks = process.marks
    is_ours = (marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_WINDOW)
    if not is_ours.any() or not (marks.kind == wire.DEVICE_STEP).any():
        return None
    starts, ends = edges.ends[:-1], edges.ends[1:]
    is_excluded = np.isin(marks.kind, _EXCLUDED_MARKS) & (marks.thread == edges.thread)
    lengths_ns = (
        ends
        - starts
        - overlap(union(marks.start[is_excluded], marks.end[is_excluded]), starts, ends)
    )
    rows = is_counted & edges.is_single
    rows[:1] = False  # the very first one sets things up
    window_start_ns = int(marks.start[is_ours].min())
    before, behind = (
        lengths_ns[rows & (ends <= window_start_ns)],
        lengths_ns[rows & (starts >= window_start_ns)],
    )
    return _Sides(before, behind) if min(len(before), len(behind)) >= _MIN_STEPS else None
