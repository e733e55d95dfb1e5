"""Which function holds the loop that an operator is called in, however deep that calls it.

A function holds a loop over an operator if a single call of it calls the operator many times, in
each step. That is the innermost such function; and where it is itself called several times by one
call of another one, it is a round of that one's loop, which counts then, unless backward passes run
there: it is the loop of the training.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.device.facets import find_phases
from gapless.accounting.host.host_row import find_roots
from gapless.accounting.host.nesting import find_innermost, find_parents
from gapless.accounting.host.threads import Bool
from gapless.capture.source_lines import Stacks
from gapless.capture.tables.work import EXCLUDED_RANGES
from gapless.capture.view import CaptureView
from gapless.model.leaf import LEAVES, PARAMETER_LEAVES
from gapless.model.ledger import PHASES
from gapless.model.trace import Int64

_OPERATOR: Final = "aten::"
_MIN_CALLS: Final = 20  # of an operator by one call of a function, a step
_MIN_ROUNDS: Final = 4  # calls of a function with a loop by one call of another one, a step
_MAX_NESTING: Final = 20  # loops within loops
_OF_PARAMETERS: Final = [
    code for code, leaf in enumerate(LEAVES) if leaf.startswith(PARAMETER_LEAVES)
]


class LoopCalls(Struct, frozen=True):
    """Outermost operators of forward passes in loops, and the frame that holds each one's loop."""

    rows: Int64  # of the operators
    frames: Int64  # events


class _Frames(Struct, frozen=True):
    """The user's calls of functions on one thread, and how many steps each lasts."""

    rows: Int64  # events
    start: Int64
    end: Int64
    parent: Int64  # positions, −1
    n_steps: Int64  # 1 at least

    def count(self, starts: Int64) -> Int64:
        """Return how many of some events begin in each frame, a step of it."""
        return self.count_begun(starts) // self.n_steps

    def count_begun(self, starts: Int64) -> Int64:
        """Return how many of some events begin in each frame."""
        ordered = np.sort(starts)
        return np.searchsorted(ordered, self.end) - np.searchsorted(ordered, self.start)


def find_loop_calls(view: CaptureView, trace_stacks: Stacks) -> LoopCalls:
    """Return the operators that functions which are no library's call in loops."""
    events, track = view.trace.events, view.side.main
    rows, passed = _find_operators(view)
    frames = _find_frames(view, trace_stacks, track)
    if not len(rows) or not len(frames.rows):
        return LoopCalls(rows[:0], rows[:0])
    holder = find_innermost(frames.start, frames.end, events.start[rows])
    for name in np.unique(events.name[rows]).tolist():
        is_named = np.flatnonzero(events.name[rows] == name)
        counts = frames.count(events.start[rows[is_named]])
        holder[is_named] = _climb(frames, holder[is_named], counts >= _MIN_CALLS)
    trains = frames.count_begun(events.start[passed]) > 0
    for _ in range(_MAX_NESTING):
        around = _find_outer_loops(view, frames, holder, trains)
        if np.array_equal(around, holder):
            break
        holder = around
    is_held = holder >= 0
    return LoopCalls(rows[is_held], frames.rows[holder[is_held]])


def _find_operators(view: CaptureView) -> tuple[Int64, Int64]:
    """Return the outermost operators of the main thread: of forward passes, and of backward ones.

    Those on parameters, and those of loaders and evaluations, are not among them.
    """
    events, names = view.trace.events, view.trace.names
    rows, leaf = find_roots(view.side)
    is_operator = np.array([name.startswith(_OPERATOR) for name in names], bool)
    is_main = events.track[rows] == view.side.main
    is_model = is_operator[events.name[rows]] & ~np.isin(leaf, _OF_PARAMETERS)
    rows = rows[is_main & is_model & view.is_inside(events.start[rows])]
    threads, starts = events.track[rows].astype(np.int64), events.start[rows]
    rows = rows[~view.side.is_within(EXCLUDED_RANGES, threads, starts)]
    threads, starts = events.track[rows].astype(np.int64), events.start[rows]
    is_backward = find_phases(view.side, threads, starts, rows) == PHASES.index("backward")
    return rows[~is_backward], rows[is_backward]


def _find_frames(view: CaptureView, trace_stacks: Stacks, track: int) -> _Frames:
    events = view.trace.events
    rows = trace_stacks.frames[events.track[trace_stacks.frames] == track]
    rows = rows[np.isin(events.name[rows], list(trace_stacks.user_names))]
    start, end = events.start[rows], events.end[rows]
    n_begun = np.searchsorted(view.starts, end) - np.searchsorted(view.starts, start)
    return _Frames(rows, start, end, find_parents(start, end), np.maximum(1, n_begun))


def _climb(frames: _Frames, holder: Int64, loops: Bool) -> Int64:
    """Return the innermost frame around each, itself included, that loops; −1: none."""
    while True:
        is_short = (holder >= 0) & ~loops[holder]
        if not is_short.any():
            return holder
        holder = np.where(is_short, frames.parent[holder], holder)


def _find_outer_loops(view: CaptureView, frames: _Frames, holder: Int64, trains: Bool) -> Int64:
    """Return the frames around, in which the functions that hold loops are rounds themselves."""
    names = view.trace.events.name[frames.rows]
    is_counted = view.is_inside(frames.start)
    around = holder.copy()
    for name in np.unique(names[holder[holder >= 0]]).tolist():
        is_held = (holder >= 0) & (names[holder] == name)
        counts = frames.count(frames.start[(names == name) & is_counted])
        loops = (counts >= _MIN_ROUNDS) & ~trains
        outer = _climb(frames, frames.parent[holder[is_held]], loops)
        around[is_held] = np.where(outer >= 0, outer, holder[is_held])
    return around
