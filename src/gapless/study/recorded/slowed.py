"""Whether steps are slower behind the first window than before it: what a profiler leaves behind.

Torch's profiler stays attached to the driver of a CUDA device when it has stopped (pytorch issue
144455), which makes each launch dearer from then on, where a window could not have it detached
(benchmarks/after_windows.py). Something else may have changed, too: a queue that was not full yet.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import overlap, union
from gapless.model.recording import Process
from gapless.model.run import Slowed
from gapless.model.trace import Int64
from gapless.study.recorded.edges import Bool, Edges

_FEWEST: Final = 5  # steps on either side
_SLOWER: Final = 1.05  # times, or nothing is said
_ASIDE: Final = (wire.NEXT, wire.COLLECTOR, wire.CHECKPOINT, wire.LOGGING, wire.PROFILING)


@dataclass(frozen=True)
class _Sides:
    """What steps took beside waits for data and what is seldom, before and behind, in ns."""

    before: Int64
    behind: Int64


def slowed(process: Process, edges: Edges, counted: Bool) -> Slowed | None:
    """Give what steps took before the first window and behind it, if they are slower there.

    ``None`` without a device, and where the profiler was detached: nothing is left behind then.
    """
    if process.windows and all(one.detached for one in process.windows):
        return None
    return compared(process, edges, counted)


def compared(process: Process, edges: Edges, counted: Bool) -> Slowed | None:
    """Give the same, whatever the windows say of their profiler."""
    sides = _sides(process, edges, counted)
    if sides is None:
        return None
    lowest, highest = np.quantile(sides.behind, 0.25), np.quantile(sides.before, 0.75)
    before, behind = float(np.median(sides.before)), float(np.median(sides.behind))
    if lowest <= highest or behind < _SLOWER * before:
        return None
    return Slowed(len(sides.before), round(before), round(behind))


def _sides(process: Process, edges: Edges, counted: Bool) -> _Sides | None:
    marks = process.marks
    ours = (marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_WINDOW)
    if not ours.any() or not (marks.kind == wire.DEVICE_STEP).any():
        return None
    starts, ends = edges.ends[:-1], edges.ends[1:]
    aside = np.isin(marks.kind, _ASIDE) & (marks.thread == edges.thread)
    lengths = ends - starts - overlap(union(marks.start[aside], marks.end[aside]), starts, ends)
    rows = counted & edges.noted
    rows[:1] = False  # the first of all makes things ready
    first = int(marks.start[ours].min())
    before, behind = lengths[rows & (ends <= first)], lengths[rows & (starts >= first)]
    return _Sides(before, behind) if min(len(before), len(behind)) >= _FEWEST else None
