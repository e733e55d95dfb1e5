"""What a change means in a window: the frames that it names, time and anchors below them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from typing import Final

import numpy as np

from gapless.accounting.host import Host, host
from gapless.accounting.intervals import NO_LANE, Lane, cover, piece_at, union
from gapless.accounting.partition import Joined
from gapless.accounting.stages import NO_STAGES, Stages
from gapless.accounting.steps import find_steps
from gapless.accounting.tags import PYTHON
from gapless.accounting.unused import unused
from gapless.model import category
from gapless.model.edit import Where
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.nodes import Float, Graph, Op, Thread
from gapless.replay.segments import Doing, of_host, of_ledger
from gapless.replay.span import Span
from gapless.replay.typical import Bool

Lanes = Mapping[int, Lane]  # by thread (track); owners are events

_CALLS: Final = (
    category.CPU_OP,
    category.RUNTIME,
    category.DRIVER,
    category.PYTHON_FUNCTION,
    category.USER_ANNOTATION,
    category.MARKER,
)
_OTHER: Final = LEAF["idle.host.python"]
_DEAREST: Final = (
    3_000  # ns: what tracing an event costs at most, so that no call costs less than 0
)
_FUNCTION: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")


@dataclass(frozen=True)
class Held:
    """What segments hold of some stretches of their thread."""

    amounts: Int64  # [anchors, len(LEAVES)]
    counts: Int64


@dataclass(frozen=True)
class View:
    """What changes are selected by: a trace joined, and what its threads did."""

    joined: Joined
    host: Host
    ledger: Ledger
    start: int  # of the first step, on the training thread
    stop: int  # of the last
    told: dict[int, Doing] = field(default_factory=dict[int, Doing])  # kept, by thread

    def doing(self, track: int) -> Doing:
        """Give what a thread did, as its graph was made of."""
        if track not in self.told:
            if len(self.joined.activities):
                bounds = np.array([self.start, self.stop])
                self.told[track] = of_host(Span(self.joined, self.host, bounds), track)
            else:
                self.told[track] = of_ledger(self.ledger)
        return self.told[track]

    @cached_property
    def unused(self) -> Lanes:
        """Give the forward passes that nothing uses."""
        threads = self.joined.threads
        return {threads.main: unused(threads).lane}


def view_of(joined: Joined, ledger: Ledger, stages: Stages = NO_STAGES) -> View:
    """Give what changes of a trace are selected by. It has steps."""
    steps = find_steps(joined.threads)
    bounds = [0, 0] if steps is None else steps.boundaries.tolist()
    side = host(joined.threads, joined.activities, stages)
    return View(joined, side, ledger, bounds[0], bounds[-1])


def leaf_mask(prefixes: Sequence[str]) -> Bool:
    """Tell which leaves begin with one of some prefixes."""
    return np.array([leaf.startswith(tuple(prefixes)) for leaf in LEAVES], bool)


def matching(names: Sequence[str], patterns: Sequence[str]) -> Bool:
    """Tell which names match one of some patterns (as ``fnmatch``, in full, by case)."""
    if not patterns:
        return np.zeros(len(names), bool)
    wanted = re.compile("|".join(translate(one) for one in patterns))
    return np.array([wanted.match(name) is not None for name in names], bool)


def calls_named(view: View, patterns: Sequence[str], line: Where | None = None) -> Int64:
    """Give the calls on host threads whose name matches; only below a line, where that is known."""
    trace = view.joined.threads.trace
    events = trace.events
    found = np.flatnonzero(
        matching(trace.names, patterns)[events.name]
        & np.isin(events.category, _CALLS)
        & (events.end > events.start)
    )
    return found if line is None else _below(view, found, line)


def frames_charged(view: View, prefixes: Sequence[str]) -> Int64:
    """Give the frames that are charged to leaves which begin with one of some prefixes."""
    context, frames = view.host.context, view.joined.threads.frames
    meant = leaf_mask(prefixes)[context.leaf[frames]] & (context.order[frames] < PYTHON)
    return frames[meant]


def lanes_of(view: View, found: Int64) -> dict[int, Lane]:
    """Give the outermost of some calls, by thread."""
    events = view.joined.threads.trace.events
    out: dict[int, Lane] = {}
    for track in np.unique(events.track[found]).tolist():
        mine = found[events.track[found] == track]
        lane = union(events.start[mine], events.end[mine])
        out[track] = Lane(lane.start, lane.end, mine[lane.owner])
    return out


def together(every: Sequence[Lanes]) -> dict[int, Lane]:
    """Give what any of several selections covers, by thread."""
    out: dict[int, Lane] = {}
    for track in sorted({track for lanes in every for track in lanes}):
        parts = [lanes[track] for lanes in every if track in lanes]
        start = np.concatenate([lane.start for lane in parts])
        lane = union(start, np.concatenate([lane.end for lane in parts]))
        owner = np.concatenate([one.owner for one in parts])
        out[track] = Lane(lane.start, lane.end, owner[lane.owner])
    return out


def spread(graph: Graph, lanes: Lanes) -> dict[int, Lane]:
    """Let other threads be meant too while the training thread has them work inside a call.

    The autograd engine's thread does so for a backward pass: the call hands over to it inside.
    """
    out = dict(lanes)
    main, *others = graph.threads
    lane = lanes.get(main.track, NO_LANE)
    piece = piece_at(lane, main.begin[main.ops == Op.EMIT])
    pieces = np.unique(piece[piece >= 0])
    if not len(pieces):
        return out
    asked = Lane(lane.start[pieces], lane.end[pieces], lane.owner[pieces])
    for other in others:
        out = together([out, {other.track: asked}])
    return out


def anchors_in(thread: Thread, lane: Lane) -> Bool:
    """Tell which anchors lie in some stretches, or are the call that a stretch begins with."""
    owned = (thread.event >= 0) & np.isin(thread.event, lane.owner)
    return (piece_at(lane, thread.begin) >= 0) | owned


def held(view: View, thread: Thread, lane: Lane, share: Sequence[float] | None = None) -> Held:
    """Measure what the segments of a thread hold of some stretches, or of a share of each."""
    weight = np.ones(len(lane)) if share is None else np.array(share)
    lo = np.concatenate(([_first(thread)], thread.end[:-1]))[: len(thread.ops)]
    cut = cover(lane, lo, np.maximum(thread.begin, lo))
    inside = cut.piece >= 0
    anchor, share_of = cut.query[inside], weight[cut.piece[inside]]
    parts = Lane(cut.start[inside], cut.end[inside], anchor)
    amounts = np.zeros(thread.amounts.shape)
    doing = view.doing(thread.track)
    said = cover(parts, doing.start, doing.end)
    known = said.piece >= 0
    part, length = said.piece[known], (said.end - said.start)[known]
    np.add.at(amounts, (anchor[part], doing.leaf[said.query[known]]), length * share_of[part])
    silent = parts.end - parts.start - np.bincount(part, length, len(parts))
    np.add.at(amounts, (anchor, np.full(len(parts), _OTHER)), silent * share_of)
    amounts = np.minimum(np.rint(amounts).astype(np.int64), thread.amounts)
    counts = _counts(view, thread, lo, lane, weight)
    return Held(amounts, np.minimum(counts, amounts.sum(axis=1) // _DEAREST))


def _counts(view: View, thread: Thread, lo: Int64, lane: Lane, weight: Float) -> Int64:
    """Give how many of the events that each segment counts lie in some stretches.

    What tracing a call cost lies outside of it for the most part: the first of a stretch stays.
    """
    starts = np.sort(view.joined.threads.trace.events.start[view.joined.threads.of(thread.track)])
    piece = piece_at(lane, starts)
    inner = (piece >= 0) & (starts > np.append(lane.start, 0)[piece])
    meant = np.where(inner, np.append(weight, 0.0)[piece], 0.0)
    upto = np.concatenate(([0.0], np.cumsum(meant)))
    first = np.searchsorted(starts, lo)
    last = np.maximum(first, np.searchsorted(starts, thread.begin, side="right"))
    part = (upto[last] - upto[first]) / np.maximum(last - first, 1)
    return np.rint(thread.counts * np.minimum(part, 1.0)).astype(np.int64)


def _first(thread: Thread) -> int:
    """Give when the first segment of a thread began."""
    return int(thread.begin[0] - thread.amounts[0].sum()) if len(thread.ops) else 0


def _below(view: View, found: Int64, line: Where) -> Int64:
    """Keep the calls below a line of the user's; all where no stacks were recorded.

    The profiler names functions by the line that they begin at.
    """
    trace = view.joined.threads.trace
    events = trace.events
    functions = np.flatnonzero(
        (events.category == category.PYTHON_FUNCTION) & (events.end > events.start)
    )
    if not len(functions):
        return found
    meant = _functions(trace.names, line)
    around = lanes_of(view, functions[meant[events.name[functions]]])
    inside = np.zeros(len(found), bool)
    for track, lane in around.items():
        inside |= (events.track[found] == track) & (piece_at(lane, events.start[found]) >= 0)
    return found[inside]


def _functions(names: Sequence[str], line: Where) -> Bool:
    """Tell which names are those of the function that holds a line."""
    known = [(at, _FUNCTION.match(name)) for at, name in enumerate(names)]
    there = [
        (at, int(one["line"]), one["function"])
        for at, one in known
        if one is not None and _same_file(one["file"], line.file) and int(one["line"]) <= line.line
    ]
    if line.function is not None:
        wanted = line.function.rpartition(".")[2]
        there = [one for one in there if one[2].rpartition(".")[2] == wanted] or there
    begins = max((one[1] for one in there), default=-1)
    found = np.zeros(len(names), bool)
    found[[at for at, begin, _ in there if begin == begins]] = True
    return found


def _same_file(one: str, other: str) -> bool:
    """Tell whether two paths mean one file: either may be cut off in front."""
    mine, theirs = one.split("/")[::-1], other.split("/")[::-1]
    return all(a == b for a, b in zip(mine, theirs, strict=False))
