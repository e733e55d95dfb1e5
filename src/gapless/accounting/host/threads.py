"""What host threads did: frames by thread, who steps, what is open (docs: the account, 2)."""

import re
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.accounting.host.nesting import innermost_lane
from gapless.accounting.host.tags import NOT_A_FRAME, Tags, tag_events
from gapless.accounting.intervals import NO_LANE, Lane, piece_at, union
from gapless.model import category
from gapless.model.trace import Int64, Trace

_STEP = "Optimizer.step#"
_ZERO_GRAD = "Optimizer.zero_grad#"
_NODE = "autograd::engine::evaluate_function"


Bool = npt.NDArray[np.bool_]
OWN_STEP = re.compile(r"^gapless:step$")
PROFILER_STEP = re.compile(r"^ProfilerStep#(\d+)$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")


class Threads(Struct, frozen=True, dict=True):
    """A trace's host side: the tag of every event, and the frames of each thread."""

    trace: Trace
    tags: Tags
    frames: Int64  # events that are frames, sorted by track
    bounds: dict[int, slice]  # track → its part of ``frames``
    main: int  # the thread that steps; −1 without host events

    def frames_of(self, track: int) -> Int64:
        """Return the frames of a thread, in the order of the file."""
        return self.frames[self.bounds.get(track, slice(0, 0))]

    @cached_property
    def operators(self) -> dict[int, Lane]:
        """Return for each thread its innermost operators (events)."""
        events, lanes = self.trace.events, dict[int, Lane]()
        for track in self.bounds:
            frames = self.frames_of(track)
            frames = frames[events.category[frames] == category.CPU_OP]
            if len(frames):
                lane = innermost_lane(events.start[frames], events.end[frames])
                lanes[track] = Lane(lane.start, lane.end, frames[lane.owner])
        return lanes

    @cached_property
    def closures(self) -> dict[int, Lane]:
        """Return for each thread when its optimizers' steps ran a forward and backward pass."""
        return closure_lanes(self.trace)

    def is_stepping(self, thread: Int64, instants: Int64) -> Bool:
        """Return whether an optimizer steps on a thread at an instant, its callbacks aside."""
        inside = self.is_within(OPTIMIZER_STEP, thread, instants)
        for track, lane in self.closures.items():
            rows = np.flatnonzero(thread == track)
            inside[rows] &= piece_at(lane, instants[rows]) < 0
        return inside

    def forget_operators(self) -> None:
        """Drop what was derived for ``operator_at``; it is derived again if it is asked for."""
        vars(self).pop("operators", None)

    def operator_at(self, thread: Int64, instants: Int64) -> Int64:
        """Return the innermost operator (event) open on a thread at an instant, or −1."""
        operators = np.full(len(thread), -1)
        for track, lane in self.operators.items():
            rows = np.flatnonzero(thread == track)
            piece = piece_at(lane, instants[rows])
            operators[rows] = np.where(piece >= 0, lane.owner[piece], -1)
        return operators

    def is_within(self, pattern: re.Pattern[str], thread: Int64, instants: Int64) -> Bool:
        """Return whether a frame or range whose name matches is open on a thread at an instant."""
        names = np.array([pattern.search(name) is not None for name in self.trace.names], bool)
        events = self.trace.events
        if not names.any():
            return np.zeros(len(thread), bool)
        named_rows = np.flatnonzero(names[events.name])
        is_range = np.isin(events.category[named_rows], _RANGES)
        named_rows = named_rows[is_range & (events.end[named_rows] > events.start[named_rows])]
        is_open = np.zeros(len(thread), bool)
        for track in np.unique(events.track[named_rows]).tolist():
            track_rows = named_rows[events.track[named_rows] == track]
            rows = np.flatnonzero(thread == track)
            is_open[rows] = (
                piece_at(union(events.start[track_rows], events.end[track_rows]), instants[rows])
                >= 0
            )
        return is_open


_RANGES = (
    category.CPU_OP,
    category.USER_ANNOTATION,
    category.PYTHON_FUNCTION,
    category.RUNTIME,
    category.DRIVER,
    category.MARKER,
)


def sort_threads(trace: Trace) -> Threads:
    """Sort the host side of a trace by thread and find the thread that steps."""
    tags = tag_events(trace)
    frames = np.flatnonzero(tags.order != NOT_A_FRAME)
    track = trace.events.track[frames]
    order = np.argsort(track, kind="stable")
    frames, track = frames[order], track[order]
    tracks, heads = np.unique(track, return_index=True)
    begins: list[int] = heads.tolist()
    ends = [*begins[1:], len(track)][: len(begins)]
    bounds = {
        int(number): slice(lo, hi) for number, lo, hi in zip(tracks, begins, ends, strict=True)
    }
    return Threads(trace, tags, frames, bounds, _find_main(trace))


def user_ranges(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    """Return the user annotations on host threads whose name matches, sorted by start."""
    names = np.array([pattern.search(name) is not None for name in trace.names], bool)
    events = trace.events
    is_range = (events.category == category.USER_ANNOTATION) & (events.end > events.start)
    rows = np.flatnonzero(is_range & names[events.name])
    return rows[np.argsort(events.start[rows], kind="stable")]


def step_ranges(trace: Trace) -> Int64:
    """Return the ranges that are steps by name, as reader or user say, in order of time."""
    events, chosen = trace.events, frozenset(trace.roles.steps)
    if not chosen:
        return np.empty(0, np.int64)
    names = np.array([name in chosen for name in trace.names], bool)
    rows = np.flatnonzero(
        names[events.name]
        & np.isin(events.category, (category.USER_ANNOTATION, category.CPU_OP))
        & (events.end > events.start)
    )
    return rows[np.argsort(events.start[rows], kind="stable")]


def _find_main(trace: Trace) -> int:
    """Find the training thread: of named steps, of step marks, of the most operators."""
    track = trace.events.track
    steps = step_ranges(trace)
    if len(steps):
        return int(np.bincount(track[steps]).argmax())
    if trace.roles.main >= 0:
        return trace.roles.main
    for pattern in (OWN_STEP, PROFILER_STEP, OPTIMIZER_STEP):
        marks = user_ranges(trace, pattern)
        if len(marks):
            return int(np.bincount(track[marks]).argmax())
    for kind in (category.CPU_OP, category.RUNTIME, category.DRIVER, category.PYTHON_FUNCTION):
        rows = track[trace.events.category == kind]
        if len(rows):
            return int(np.bincount(rows).argmax())
    return -1


def closure_lanes(trace: Trace) -> dict[int, Lane]:
    """Return for each thread the time in which its optimizers' steps ran a closure.

    A step in which a backward pass runs has one: torch's optimizers call it before all else, so it
    lasts from the step's begin to the end of the last node of the graph. ``LBFGS`` calls it again:
    each further one begins where the gradients are cleared.
    """
    events = trace.events
    steps, nodes = _find_events(trace, _STEP), _find_events(trace, _NODE)
    if not len(steps) or not len(nodes):
        return {}
    order = np.argsort(events.start[nodes], kind="stable")
    start, end = events.start[nodes][order], events.end[nodes][order]
    zero_grads = _find_events(trace, _ZERO_GRAD)
    spans_by_track: dict[int, list[tuple[int, int]]] = {}
    for step in steps.tolist():
        track, lo, hi = int(events.track[step]), int(events.start[step]), int(events.end[step])
        node_slice = slice(*np.searchsorted(start, (lo, hi)).tolist())
        if node_slice.start == node_slice.stop:
            continue
        own_zero_grads = zero_grads[(events.track[zero_grads] == track)]
        clear_starts = events.start[own_zero_grads]
        begins = np.sort(clear_starts[(clear_starts > lo) & (clear_starts < hi)])
        spans_by_track.setdefault(track, []).extend(
            _step_closures(start[node_slice], end[node_slice], begins, lo)
        )
    return {track: _union_lane(spans) for track, spans in spans_by_track.items()}


def _step_closures(start: Int64, end: Int64, cleared_ns: Int64, lo: int) -> list[tuple[int, int]]:
    """Return the closures of one step: from where each began to the last node before the next."""
    # how often gradients were cleared before
    n_cleared = np.searchsorted(cleared_ns, start, side="right")
    first_rows = np.flatnonzero(np.diff(n_cleared, prepend=-1))
    ends = np.maximum.reduceat(end, first_rows).tolist()
    begins = [lo, *(int(cleared_ns[count - 1]) for count in n_cleared[first_rows[1:]])]
    return list(zip(begins, ends, strict=True))


def _union_lane(spans: list[tuple[int, int]]) -> Lane:
    bounds = np.array(spans, np.int64)
    return union(bounds[:, 0], bounds[:, 1]) if len(spans) else NO_LANE


def _find_events(trace: Trace, prefix: str) -> Int64:
    """Return host events whose name begins so, and which take time."""
    events = trace.events
    names = np.array([name.startswith(prefix) for name in trace.names], bool)
    if not names.any():
        return np.empty(0, np.int64)
    host = np.isin(events.category, (category.CPU_OP, category.USER_ANNOTATION))
    return np.flatnonzero(names[events.name] & host & (events.end > events.start))
