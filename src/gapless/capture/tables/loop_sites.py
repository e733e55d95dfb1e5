"""Which function holds the loop that an operator is called in, however deep that calls it.

A function holds a loop over an operator if a single call of it calls the operator many times, in
each step. That is the innermost such function; and where it is itself called several times by one
call of another one, it is a round of that one's loop, which counts then.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.device.facets import find_phases
from gapless.accounting.host.host_row import find_roots
from gapless.accounting.host.nesting import find_innermost, find_parents
from gapless.accounting.host.threads import Bool
from gapless.capture.source_lines import Stacks
from gapless.capture.view import CaptureView
from gapless.model.ledger import PHASES
from gapless.model.trace import Int64

_OPERATOR: Final = "aten::"
_MIN_CALLS: Final = 20  # of an operator by one call of a function, a step
_MIN_ROUNDS: Final = 4  # calls of a function with a loop by one call of another one, a step
_MAX_NESTING: Final = 20  # loops within loops


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
        ordered = np.sort(starts)
        n_inside = np.searchsorted(ordered, self.end) - np.searchsorted(ordered, self.start)
        return n_inside // self.n_steps


def find_loop_calls(view: CaptureView, trace_stacks: Stacks) -> LoopCalls:
    """Return the operators that functions which are no library's call in loops."""
    events, track = view.trace.events, view.side.main
    rows = _forward_operators(view)
    frames = _find_frames(view, trace_stacks, track)
    if not len(rows) or not len(frames.rows):
        return LoopCalls(rows[:0], rows[:0])
    holder = find_innermost(frames.start, frames.end, events.start[rows])
    for name in np.unique(events.name[rows]).tolist():
        is_named = np.flatnonzero(events.name[rows] == name)
        counts = frames.count(events.start[rows[is_named]])
        holder[is_named] = _climb(frames, holder[is_named], counts >= _MIN_CALLS)
    for _ in range(_MAX_NESTING):
        around = _find_outer_loops(view, frames, holder)
        if np.array_equal(around, holder):
            break
        holder = around
    is_held = holder >= 0
    return LoopCalls(rows[is_held], frames.rows[holder[is_held]])


def _forward_operators(view: CaptureView) -> Int64:
    """Return the outermost operators of the main thread that no backward pass calls."""
    events, names = view.trace.events, view.trace.names
    rows, _ = find_roots(view.side)
    is_operator = np.array([name.startswith(_OPERATOR) for name in names], bool)
    is_main = events.track[rows] == view.side.main
    rows = rows[is_main & is_operator[events.name[rows]] & view.is_inside(events.start[rows])]
    threads, starts = events.track[rows].astype(np.int64), events.start[rows]
    phases = find_phases(view.side, threads, starts, rows)
    return rows[phases != PHASES.index("backward")]


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


def _find_outer_loops(view: CaptureView, frames: _Frames, holder: Int64) -> Int64:
    """Return the frames around, in which the functions that hold loops are rounds themselves."""
    names = view.trace.events.name[frames.rows]
    around = holder.copy()
    for name in np.unique(names[holder[holder >= 0]]).tolist():
        is_held = (holder >= 0) & (names[holder] == name)
        counts = frames.count(frames.start[names == name])
        outer = _climb(frames, frames.parent[holder[is_held]], counts >= _MIN_ROUNDS)
        around[is_held] = np.where(outer >= 0, outer, holder[is_held])
    return around
