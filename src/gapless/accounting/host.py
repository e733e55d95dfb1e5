"""φ: what a host thread was doing, as a leaf and an event to blame (docs: the account, 6)."""

from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import Activities
from gapless.accounting.charges import NO_CHARGES, Charges, charges, joined
from gapless.accounting.context import Context, in_context
from gapless.accounting.intervals import NO_LANE, Lane, cover, merge, piece_at, subtract, union
from gapless.accounting.nesting import forest, lane_of
from gapless.accounting.stages import NO_STAGES, Stages, staged
from gapless.accounting.sweep import sweep_host
from gapless.accounting.tags import DATA, GC, PYTHON, SINGLE_PROCESS
from gapless.accounting.threads import Threads
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64

UNFRAMED = 5_000_000  # ns [G]: a longer silence of everybody is not called Python
_EVALUATE = "autograd::engine::evaluate_function"
_API = (category.CPU_OP, category.RUNTIME, category.DRIVER)


@dataclass(frozen=True)
class Host:
    """The host side of a trace, ready to be asked."""

    threads: Threads
    context: Context
    lanes: dict[
        int, Charges
    ]  # thread → its tagged frames, bursts and silences: disjoint and sorted
    collecting: Lane  # a garbage collection on any thread (owner: event)
    python: Lane  # main's innermost untagged Python functions (owner: event)
    lost: Lane  # spans in which host events are missing

    def phi(self, thread: Int64, lo: Int64, hi: Int64) -> Charges:
        """Charge each ``[lo, hi)`` on its thread; sorted by query and time."""
        query, main = np.arange(len(lo)), self.threads.main
        parts: list[Charges] = []
        for track, lane in self.lanes.items():
            if track == main:
                continue
            mine = np.flatnonzero(thread == track)
            found, holes = ask(lane, query[mine], lo[mine], hi[mine])
            parts += [found, holes]
        unknown, holes = _split(self.lost, joined(parts[1::2]) if parts else NO_CHARGES)
        elsewhere = np.isin(thread, [t for t in self.lanes if t != main], invert=True)
        asked = charges(lo[elsewhere], hi[elsewhere], 0, query=query[elsewhere])
        return joined(
            [*parts[::2], _as(unknown, "idle.unknown"), *self._main(joined([asked, holes]))]
        )

    def _main(self, asked: Charges) -> list[Charges]:
        """Charge what main did: its lane, else a collection anywhere, else Python."""
        lane = self.lanes.get(self.threads.main, NO_CHARGES)
        found, holes = ask(lane, asked.query, asked.start, asked.end)
        unknown, holes = _split(self.lost, holes)
        gc, holes = _split(self.collecting, holes)
        python, bare = _split(self.python, holes)
        rest = "idle.host.python" if self.threads.main >= 0 else "idle.unknown"
        return [
            found,
            _as(unknown, "idle.unknown"),
            _as(gc, "idle.gc"),
            _as(python, rest),
            _as(bare, rest),
        ]


def _as(stretches: Charges, leaf: str) -> Charges:
    return replace(stretches, leaf=np.full(len(stretches), LEAF[leaf]))


def host(threads: Threads, acts: Activities, stages: Stages = NO_STAGES) -> Host:
    """Prepare φ for a trace."""
    context = in_context(threads, acts)
    events = threads.trace.events
    spans = np.array(threads.trace.health.lost, np.int64).reshape(-1, 2)
    lost = union(spans[:, 0], spans[:, 1])
    lost = Lane(lost.start, lost.end, np.full(len(lost), -1))
    lanes = {
        track: _lane(threads, context, stages, track)
        for track in dict.fromkeys([*threads.bounds, *context.held_track.tolist()])
    }
    bursts = _bursts(threads, lanes, lost)
    main = threads.of(threads.main)
    functions = main[context.order[main] == PYTHON]
    python = lane_of(forest(events.start[functions], events.end[functions]))
    python = Lane(python.start, python.end, functions[python.owner])
    gc = threads.frames[context.order[threads.frames] == GC]
    collecting = union(events.start[gc], events.end[gc])
    collecting = Lane(collecting.start, collecting.end, gc[collecting.owner])
    for track, burst in bursts.items():
        lanes[track] = joined([lanes[track], burst])
    if threads.main >= 0 and not len(python):
        launching = {*np.unique(acts.thread[acts.call >= 0]).tolist(), threads.main}
        alive = [lane.lane() for track, lane in lanes.items() if track in launching]
        silence = subtract(_silences([*alive, collecting]), lost)
        quiet = charges(silence.start, silence.end, LEAF["idle.host.unframed"])
        lanes[threads.main] = joined([lanes.get(threads.main, NO_CHARGES), quiet])
    return Host(threads, context, lanes, collecting, python, lost)


def _lane(threads: Threads, context: Context, stages: Stages, track: int) -> Charges:
    """Sweep the tagged frames of one thread."""
    events = threads.trace.events
    mine = threads.of(track)
    mine = mine[context.order[mine] < PYTHON]
    held = np.flatnonzero(context.held_track == track)
    start = np.concatenate((events.start[mine], context.held_start[held]))
    end = np.concatenate((events.end[mine], context.held_end[held]))
    order = np.concatenate((context.order[mine], np.zeros(len(held), np.int64)))
    event = np.concatenate((mine, context.held_event[held]))
    leaf = np.concatenate((context.leaf[mine], np.full(len(held), LEAF["idle.profiler"])))
    lane = sweep_host(start, end, order)
    if not len(lane):
        return NO_CHARGES
    made = charges(lane.start, lane.end, leaf[lane.owner], event[lane.owner])
    at_home = np.array([SINGLE_PROCESS in name for name in threads.trace.names], bool)
    is_data = order[lane.owner] == DATA
    home = is_data & at_home[events.name[made.culprit]]
    made = replace(made, home=home)
    if not is_data.any():
        return made
    waits = staged(made.take(is_data), stages)
    return joined([made.take(~is_data), waits])


def _bursts(threads: Threads, lanes: dict[int, Charges], lost: Lane) -> dict[int, Charges]:
    """Find gaps of other threads in which main began and ended nothing.

    That is the autograd engine between two nodes.
    """
    events, main = threads.trace.events, threads.of(threads.main)
    calls = main[np.isin(events.category[main], _API)]
    nodes = np.array([name.startswith(_EVALUATE) for name in threads.trace.names], bool)
    below = main[nodes[events.name[main]]]
    within = piece_at(union(events.start[below], events.end[below]), events.start[calls]) >= 0
    calls = calls[~within]
    edges = np.sort(np.concatenate((events.start[calls], events.end[calls])))
    found = dict[int, Charges]()
    for track, lane in lanes.items():
        if track == threads.main or len(lane) <= 1:
            continue
        x, y, after = lane.end[:-1], lane.start[1:], lane.culprit[1:]
        quiet = np.searchsorted(edges, x, side="right") == np.searchsorted(edges, y)
        gaps = np.flatnonzero((x < y) & quiet)
        free = subtract(Lane(x[gaps], y[gaps], after[gaps]), lost)
        found[track] = charges(free.start, free.end, LEAF["idle.host.engine"], free.owner)
    return found


def _silences(alive: list[Lane]) -> Lane:
    """Give the gaps between anything that is alive that are too long to be called Python."""
    everything = merge(alive)
    seen = union(everything.start, everything.end)
    if len(seen) <= 1:
        return NO_LANE
    start, end = seen.end[:-1], seen.start[1:]
    long = end - start > UNFRAMED
    return Lane(start[long], end[long], np.full(int(long.sum()), -1))


def ask(lane: Charges, query: Int64, lo: Int64, hi: Int64) -> tuple[Charges, Charges]:
    """Cut questions along a lane: what it says, and where it says nothing."""
    cut = cover(lane.lane(), lo, hi)
    said = lane.within(cut)
    hole = cut.piece < 0
    holes = charges(cut.start[hole], cut.end[hole], 0, query=query[cut.query[hole]])
    return replace(said, query=query[said.query]), holes


def _split(lane: Lane, asked: Charges) -> tuple[Charges, Charges]:
    """Cut stretches into what lies in a lane, blamed on its owner, and what does not."""
    cut = cover(lane, asked.start, asked.end)
    inside = cut.piece >= 0
    owner = lane.owner[cut.piece[inside]] if len(lane) else cut.piece[inside]
    query = asked.query[cut.query]
    return (
        charges(cut.start[inside], cut.end[inside], 0, owner, query=query[inside]),
        charges(cut.start[~inside], cut.end[~inside], 0, query=query[~inside]),
    )
