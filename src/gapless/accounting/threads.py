"""What host threads did: frames by thread, who steps, what is open (docs: the account, 2)."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gapless.accounting.closures import closures
from gapless.accounting.intervals import Lane, piece_at, union
from gapless.accounting.nesting import innermost_lane
from gapless.accounting.tags import NOT_A_FRAME, Tags, tag
from gapless.model import category
from gapless.model.trace import Int64, Trace

Bool = npt.NDArray[np.bool_]
OWN_STEP = re.compile(r"^gapless:step$")
PROFILER_STEP = re.compile(r"^ProfilerStep#(\d+)$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")


@dataclass(frozen=True)
class Threads:
    """A trace's host side: the tag of every event, and the frames of each thread."""

    trace: Trace
    tags: Tags
    frames: Int64  # events that are frames, sorted by track
    bounds: dict[int, slice]  # track → its part of ``frames``
    main: int  # the thread that steps; −1 without host events

    def of(self, track: int) -> Int64:
        """Give the frames of a thread, in the order of the file."""
        return self.frames[self.bounds.get(track, slice(0, 0))]

    @cached_property
    def operators(self) -> dict[int, Lane]:
        """Give for each thread its innermost operators (events)."""
        events, lanes = self.trace.events, dict[int, Lane]()
        for track in self.bounds:
            mine = self.of(track)
            mine = mine[events.category[mine] == category.CPU_OP]
            if len(mine):
                lane = innermost_lane(events.start[mine], events.end[mine])
                lanes[track] = Lane(lane.start, lane.end, mine[lane.owner])
        return lanes

    @cached_property
    def closures(self) -> dict[int, Lane]:
        """Give for each thread when its optimizers' steps ran a forward and backward pass."""
        return closures(self.trace)

    def stepping(self, thread: Int64, at: Int64) -> Bool:
        """Tell whether an optimizer steps on a thread at an instant, beside what it calls back."""
        found = self.within(OPTIMIZER_STEP, thread, at)
        for track, lane in self.closures.items():
            mine = np.flatnonzero(thread == track)
            found[mine] &= piece_at(lane, at[mine]) < 0
        return found

    def forget(self) -> None:
        """Drop what was derived for ``operator_at``; it is derived again if it is asked for."""
        vars(self).pop("operators", None)

    def operator_at(self, thread: Int64, at: Int64) -> Int64:
        """Give the innermost operator (event) open on a thread at an instant, or −1."""
        found = np.full(len(thread), -1)
        for track, lane in self.operators.items():
            mine = np.flatnonzero(thread == track)
            piece = piece_at(lane, at[mine])
            found[mine] = np.where(piece >= 0, lane.owner[piece], -1)
        return found

    def within(self, pattern: re.Pattern[str], thread: Int64, at: Int64) -> Bool:
        """Tell whether a frame or range whose name matches is open on a thread at an instant."""
        names = np.array([pattern.search(name) is not None for name in self.trace.names], bool)
        events = self.trace.events
        if not names.any():
            return np.zeros(len(thread), bool)
        chosen = np.flatnonzero(names[events.name])
        ranges = np.isin(events.category[chosen], _RANGES)
        chosen = chosen[ranges & (events.end[chosen] > events.start[chosen])]
        found = np.zeros(len(thread), bool)
        for track in np.unique(events.track[chosen]).tolist():
            mine = chosen[events.track[chosen] == track]
            rows = np.flatnonzero(thread == track)
            found[rows] = piece_at(union(events.start[mine], events.end[mine]), at[rows]) >= 0
        return found


_RANGES = (
    category.CPU_OP,
    category.USER_ANNOTATION,
    category.PYTHON_FUNCTION,
    category.RUNTIME,
    category.DRIVER,
    category.MARKER,
)


def threads(trace: Trace) -> Threads:
    """Sort the host side of a trace by thread and find the thread that steps."""
    tags = tag(trace)
    frames = np.flatnonzero(tags.order != NOT_A_FRAME)
    track = trace.events.track[frames]
    order = np.argsort(track, kind="stable")
    frames, track = frames[order], track[order]
    tracks, heads = np.unique(track, return_index=True)
    begins: list[int] = heads.tolist()
    ends = [*begins[1:], len(track)][: len(begins)]
    bounds = {int(one): slice(lo, hi) for one, lo, hi in zip(tracks, begins, ends, strict=True)}
    return Threads(trace, tags, frames, bounds, _main(trace))


def user_ranges(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    """Give the user annotations on host threads whose name matches, sorted by start."""
    names = np.array([pattern.search(name) is not None for name in trace.names], bool)
    events = trace.events
    annotation = (events.category == category.USER_ANNOTATION) & (events.end > events.start)
    found = np.flatnonzero(annotation & names[events.name])
    return found[np.argsort(events.start[found], kind="stable")]


def _main(trace: Trace) -> int:
    """Find the training thread: of step marks, of Optimizer.step#, of the most operators."""
    track = trace.events.track
    for pattern in (OWN_STEP, PROFILER_STEP, OPTIMIZER_STEP):
        found = user_ranges(trace, pattern)
        if len(found):
            return int(np.bincount(track[found]).argmax())
    for kind in (category.CPU_OP, category.RUNTIME, category.DRIVER, category.PYTHON_FUNCTION):
        rows = track[trace.events.category == kind]
        if len(rows):
            return int(np.bincount(rows).argmax())
    return -1
