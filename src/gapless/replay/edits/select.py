"""What a change means in a window: the frames that it names, time and anchors below them."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct, field

from gapless.accounting.host.host import HostSide, prepare_host
from gapless.accounting.host.steps import find_steps
from gapless.accounting.host.tags import PYTHON
from gapless.accounting.host.unused_forwards import find_unused_passes
from gapless.accounting.intervals import NO_LANE, Lane, cover, piece_at, union
from gapless.accounting.partition import JoinedTrace
from gapless.model import category
from gapless.model.edit import Location
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Float, Graph, GraphThread, Op
from gapless.replay.graph.segments import ThreadStretches, host_stretches, ledger_stretches
from gapless.replay.graph.span import GraphSpan

Lanes = Mapping[int, Lane]  # by thread (track); owners are events

_PYTHON_LEAF: Final = LEAF["idle.host.python"]
# ns: what tracing an event costs at most, so that no call costs less than 0
_MAX_TRACE_NS: Final = 3_000
_FUNCTION: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")


class StretchContents(Struct, frozen=True):
    """What segments hold of some stretches of their thread."""

    amounts: Int64  # [anchors, len(LEAVES)]
    counts: Int64


class ReplayView(Struct, frozen=True, dict=True):
    """What changes select from: a joined trace, and what its threads did."""

    joined_trace: JoinedTrace
    host: HostSide
    ledger: Ledger
    start: int  # of the first step, on the training thread
    stop: int  # of the last
    stretches_by_track: dict[int, ThreadStretches] = field(
        default_factory=dict[int, ThreadStretches]
    )  # kept, by thread

    def thread_stretches(self, track: int) -> ThreadStretches:
        """Return what a thread did, as in its graph."""
        if track not in self.stretches_by_track:
            if len(self.joined_trace.activities):
                bounds = np.array([self.start, self.stop])
                self.stretches_by_track[track] = host_stretches(
                    GraphSpan(self.joined_trace, self.host, bounds), track
                )
            else:
                self.stretches_by_track[track] = ledger_stretches(self.ledger)
        return self.stretches_by_track[track]

    @cached_property
    def unused_lanes(self) -> Lanes:
        """Return the forward passes that nothing uses."""
        threads = self.joined_trace.threads
        return {threads.main: find_unused_passes(threads).lane}


def view_of(joined_trace: JoinedTrace, ledger: Ledger) -> ReplayView:
    """Return what changes of a trace select from. The trace has steps."""
    steps = find_steps(joined_trace.threads)
    bounds = [0, 0] if steps is None else steps.boundaries.tolist()
    host_side = prepare_host(joined_trace.threads, joined_trace.activities)
    return ReplayView(joined_trace, host_side, ledger, bounds[0], bounds[-1])


def leaf_mask(prefixes: Sequence[str]) -> Bool:
    """Return which leaves begin with one of some prefixes."""
    return np.array([leaf.startswith(tuple(prefixes)) for leaf in LEAVES], bool)


def match_names(names: Sequence[str], patterns: Sequence[str]) -> Bool:
    """Return which names match one of some patterns (as ``fnmatch``, in full, case-sensitive)."""
    if not patterns:
        return np.zeros(len(names), bool)
    pattern = re.compile("|".join(translate(glob) for glob in patterns))
    return np.array([pattern.match(name) is not None for name in names], bool)


def find_calls(view: ReplayView, patterns: Sequence[str], line: Location | None = None) -> Int64:
    """Return host threads' calls whose name matches; only those below a line, if it is known."""
    trace = view.joined_trace.threads.trace
    events = trace.events
    calls = np.flatnonzero(
        match_names(trace.names, patterns)[events.name]
        & np.isin(events.category, category.HOST_CALLS)
        & (events.end > events.start)
    )
    return calls if line is None else _calls_below(view, calls, line)


def find_frames(view: ReplayView, prefixes: Sequence[str]) -> Int64:
    """Return the frames that are charged to leaves which begin with one of some prefixes."""
    context, frames = view.host.context, view.joined_trace.threads.frames
    is_meant = leaf_mask(prefixes)[context.leaf[frames]] & (context.order[frames] < PYTHON)
    return frames[is_meant]


def lanes_of(view: ReplayView, calls: Int64) -> dict[int, Lane]:
    """Return the outermost of some calls, by thread."""
    events = view.joined_trace.threads.trace.events
    lanes: dict[int, Lane] = {}
    for track in np.unique(events.track[calls]).tolist():
        track_calls = calls[events.track[calls] == track]
        lane = union(events.start[track_calls], events.end[track_calls])
        lanes[track] = Lane(lane.start, lane.end, track_calls[lane.owner])
    return lanes


def join_lanes(selections: Sequence[Lanes]) -> dict[int, Lane]:
    """Return what any of several selections covers, by thread."""
    lanes_by_track: dict[int, Lane] = {}
    for track in sorted({track for lanes in selections for track in lanes}):
        track_lanes = [lanes[track] for lanes in selections if track in lanes]
        start = np.concatenate([lane.start for lane in track_lanes])
        lane = union(start, np.concatenate([lane.end for lane in track_lanes]))
        owner = np.concatenate([lane.owner for lane in track_lanes])
        lanes_by_track[track] = Lane(lane.start, lane.end, owner[lane.owner])
    return lanes_by_track


def spread_lanes(graph: Graph, lanes: Lanes) -> dict[int, Lane]:
    """Include other threads while the training thread has them work inside a call.

    The autograd engine's thread does so for a backward pass: the call hands over to it inside.
    """
    lanes_by_track = dict(lanes)
    main, *other_threads = graph.threads
    lane = lanes.get(main.track, NO_LANE)
    piece = piece_at(lane, main.begin[main.ops == Op.EMIT])
    pieces = np.unique(piece[piece >= 0])
    if not len(pieces):
        return lanes_by_track
    call_lane = Lane(lane.start[pieces], lane.end[pieces], lane.owner[pieces])
    for thread in other_threads:
        lanes_by_track = join_lanes([lanes_by_track, {thread.track: call_lane}])
    return lanes_by_track


def anchor_mask(thread: GraphThread, lane: Lane) -> Bool:
    """Return which anchors lie in some stretches, or are the call that a stretch begins with."""
    is_owner = (thread.event >= 0) & np.isin(thread.event, lane.owner)
    return (piece_at(lane, thread.begin) >= 0) | is_owner


def measure_contents(
    view: ReplayView, thread: GraphThread, lane: Lane, share: Sequence[float] | None = None
) -> StretchContents:
    """Measure what the segments of a thread hold of some stretches, or of a share of each."""
    weight = np.ones(len(lane)) if share is None else np.array(share)
    lo = np.concatenate(([_segment_start(thread)], thread.end[:-1]))[: len(thread.ops)]
    cut = cover(lane, lo, np.maximum(thread.begin, lo))
    inside = cut.piece >= 0
    anchor, share_of = cut.query[inside], weight[cut.piece[inside]]
    pieces = Lane(cut.start[inside], cut.end[inside], anchor)
    amounts = np.zeros(thread.amounts.shape)
    stretches = view.thread_stretches(thread.track)
    overlaps = cover(pieces, stretches.start, stretches.end)
    is_inside = overlaps.piece >= 0
    piece, length = overlaps.piece[is_inside], (overlaps.end - overlaps.start)[is_inside]
    np.add.at(
        amounts,
        (anchor[piece], stretches.leaf[overlaps.query[is_inside]]),
        length * share_of[piece],
    )
    silent_ns = pieces.end - pieces.start - np.bincount(piece, length, len(pieces))
    np.add.at(amounts, (anchor, np.full(len(pieces), _PYTHON_LEAF)), silent_ns * share_of)
    amounts = np.minimum(np.rint(amounts).astype(np.int64), thread.amounts)
    counts = _count_contents(view, thread, lo, lane, weight)
    return StretchContents(amounts, np.minimum(counts, amounts.sum(axis=1) // _MAX_TRACE_NS))


def _count_contents(
    view: ReplayView, thread: GraphThread, lo: Int64, lane: Lane, weight: Float
) -> Int64:
    """Return how many of the events that each segment counts lie in some stretches.

    The cost of tracing a call lies mostly outside of it: the first of a stretch stays.
    """
    starts = np.sort(
        view.joined_trace.threads.trace.events.start[
            view.joined_trace.threads.frames_of(thread.track)
        ]
    )
    piece = piece_at(lane, starts)
    is_inner = (piece >= 0) & (starts > np.append(lane.start, 0)[piece])
    weights = np.where(is_inner, np.append(weight, 0.0)[piece], 0.0)
    upto = np.concatenate(([0.0], np.cumsum(weights)))
    first_event = np.searchsorted(starts, lo)
    last_event = np.maximum(first_event, np.searchsorted(starts, thread.begin, side="right"))
    share = (upto[last_event] - upto[first_event]) / np.maximum(last_event - first_event, 1)
    return np.rint(thread.counts * np.minimum(share, 1.0)).astype(np.int64)


def _segment_start(thread: GraphThread) -> int:
    """Return when the first segment of a thread began."""
    return int(thread.begin[0] - thread.amounts[0].sum()) if len(thread.ops) else 0


def _calls_below(view: ReplayView, calls: Int64, line: Location) -> Int64:
    """Keep the calls below a line of the user's; all where no stacks were recorded.

    The profiler names functions by the line that they begin at.
    """
    trace = view.joined_trace.threads.trace
    events = trace.events
    functions = np.flatnonzero(
        (events.category == category.PYTHON_FUNCTION) & (events.end > events.start)
    )
    if not len(functions):
        return calls
    is_function = _is_function_of(trace.names, line)
    function_lanes = lanes_of(view, functions[is_function[events.name[functions]]])
    is_below = np.zeros(len(calls), bool)
    for track, lane in function_lanes.items():
        is_below |= (events.track[calls] == track) & (piece_at(lane, events.start[calls]) >= 0)
    return calls[is_below]


def _is_function_of(names: Sequence[str], line: Location) -> Bool:
    """Return which names are those of the function that holds a line."""
    matches = [(index, _FUNCTION.match(name)) for index, name in enumerate(names)]
    candidates = [
        (index, int(match["line"]), match["function"])
        for index, match in matches
        if match is not None
        and _is_same_file(match["file"], line.file)
        and int(match["line"]) <= line.line
    ]
    if line.function is not None:
        function = line.function.rpartition(".")[2]
        candidates = [
            candidate for candidate in candidates if candidate[2].rpartition(".")[2] == function
        ] or candidates
    last_begin = max((candidate[1] for candidate in candidates), default=-1)
    is_match = np.zeros(len(names), bool)
    is_match[[index for index, begin, _ in candidates if begin == last_begin]] = True
    return is_match


def _is_same_file(path: str, other_path: str) -> bool:
    """Return whether two paths mean the same file: either may be cut off at the front."""
    names, other_names = path.split("/")[::-1], other_path.split("/")[::-1]
    return all(a == b for a, b in zip(names, other_names, strict=False))
