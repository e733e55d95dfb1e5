"""φ: what a host thread was doing, as a leaf and an event to blame (docs: the account, 6)."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import Activities, clock_error
from gapless.accounting.charges import NOTHING_TOLD, Charges, Told, charges, joined, told, woven
from gapless.accounting.context import Context, in_context
from gapless.accounting.intervals import (
    NO_LANE,
    Lane,
    cover,
    merge,
    piece_at,
    subtract,
    union,
)
from gapless.accounting.nesting import innermost_lane
from gapless.accounting.stages import NO_STAGES, Stages, staged
from gapless.accounting.sweep import renamed, sweep_device, sweep_host
from gapless.accounting.tags import DATA, GC, OPTIMIZER, PROFILER, PYTHON, SINGLE_PROCESS
from gapless.accounting.threads import Bool, Threads
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int8, Int64

UNFRAMED = 5_000_000  # ns [G]: a longer silence of everybody is not called Python
_EVALUATE = "autograd::engine::evaluate_function"
_API = (category.CPU_OP, category.RUNTIME, category.DRIVER)


@dataclass(frozen=True)
class Host:
    """The host side of a trace, ready to be asked."""

    threads: Threads
    context: Context
    lanes: dict[int, Told]  # thread → its tagged frames, bursts and silences
    collecting: Told  # a garbage collection on any thread
    python: Told  # main's innermost untagged Python functions
    lost: Told  # spans in which host events are missing
    clock_error_ns: int  # of the host's clock against the devices', over all launches

    def phi(self, thread: Int64, lo: Int64, hi: Int64) -> Charges:
        """Charge each ``[lo, hi)`` on its thread; sorted by query and time."""
        query, main = np.arange(len(lo)), self.threads.main
        said, unsaid = list[Charges](), list[Charges]()
        others = [track for track in self.lanes if track != main]
        for track in others:
            mine = np.flatnonzero(thread == track)
            found, holes = self.lanes[track].ask(charges(lo[mine], hi[mine], 0, query=query[mine]))
            unknown, holes = self.lost.ask(holes)
            said += [found, unknown]
            unsaid.append(holes)
        elsewhere = np.isin(thread, others, invert=True)
        asked = charges(lo[elsewhere], hi[elsewhere], 0, query=query[elsewhere])
        return joined([*said, *self._main(joined([asked, *unsaid]))])

    def _main(self, asked: Charges) -> list[Charges]:
        """Charge what main did: its lane, what is lost, a collection anywhere, else Python."""
        said = list[Charges]()
        own = self.lanes.get(self.threads.main, NOTHING_TOLD)
        for lane in (own, self.lost, self.collecting, self.python):
            found, asked = lane.ask(asked)
            said.append(found)
        rest = LEAF["idle.host.python" if self.threads.main >= 0 else "idle.unknown"]
        return [*said, replace(asked, leaf=np.full(len(asked), rest))]


def host(threads: Threads, acts: Activities, stages: Stages = NO_STAGES) -> Host:
    """Prepare φ for a trace."""
    with ThreadPoolExecutor(1) as pool:  # NumPy lets the other thread run meanwhile
        functions = pool.submit(_functions, threads)
        context = in_context(threads, acts)
        spans = np.array(threads.trace.health.lost, np.int64).reshape(-1, 2)
        lost = union(spans[:, 0], spans[:, 1])
        lost = Lane(lost.start, lost.end, np.full(len(lost), -1))
        lanes = _lanes(threads, context, stages, lost)
        python = functions.result()
    collecting = _collecting(threads, context)
    if threads.main >= 0 and not len(python):
        launching = {*np.unique(acts.thread[acts.call >= 0]).tolist(), threads.main}
        alive = [lane.lane for track, lane in lanes.items() if track in launching]
        silence = subtract(_silences([*alive, collecting]), lost)
        quiet = told(silence, LEAF["idle.host.unframed"])
        lanes[threads.main] = woven([lanes.get(threads.main, NOTHING_TOLD), quiet])
    return Host(
        threads=threads,
        context=context,
        lanes=lanes,
        collecting=told(collecting, LEAF["idle.gc"]),
        python=told(python, LEAF["idle.host.python"]),
        lost=told(lost, LEAF["idle.unknown"]),
        clock_error_ns=clock_error(acts),
    )


def _functions(threads: Threads) -> Lane:
    """Give main's innermost untagged Python functions (owner: event)."""
    events, main = threads.trace.events, threads.of(threads.main)
    functions = main[threads.tags.order[main] == PYTHON]
    lane = innermost_lane(events.start[functions], events.end[functions])
    return Lane(lane.start, lane.end, functions[lane.owner])


def _collecting(threads: Threads, context: Context) -> Lane:
    """Give when a garbage collection ran on any thread; of several, the one that began first."""
    events = threads.trace.events
    gc = threads.frames[context.order[threads.frames] == GC]
    gc = gc[np.lexsort((events.end[gc], events.start[gc]))]
    lane = sweep_device(events.start[gc], events.end[gc], np.zeros(len(gc), np.int64))
    return Lane(lane.start, lane.end, gc[lane.owner])


def _lanes(threads: Threads, context: Context, stages: Stages, lost: Lane) -> dict[int, Told]:
    """Give the lane of each thread, with the bursts of those that are not main."""
    tracks = list(dict.fromkeys([*threads.bounds, *context.held_track.tolist()]))
    lanes = {track: _lane(threads, context, track) for track in tracks}
    bursts = _bursts(threads, lanes, lost)
    for track in tracks:  # one by one: a lane of a long trace is a hundred megabytes
        lane = _staged(threads, lanes.pop(track), stages)
        lanes[track] = woven([lane, bursts.get(track, NOTHING_TOLD)])
        del lane
    return lanes


def _lane(threads: Threads, context: Context, track: int) -> Told:
    """Sweep the tagged frames of one thread; waits for data are told as at home."""
    events = threads.trace.events
    mine = threads.of(track)
    mine = mine[context.order[mine] < PYTHON]
    held = np.flatnonzero(context.held_track == track)
    start = np.concatenate((events.start[mine], context.held_start[held]))
    end = np.concatenate((events.end[mine], context.held_end[held]))
    order = np.concatenate((context.order[mine], np.zeros(len(held), np.int8)))
    event = np.concatenate((mine, context.held_event[held]))
    leaf = np.concatenate((context.leaf[mine], np.full(len(held), LEAF["idle.profiler"], np.int8)))
    called = threads.closures.get(track)
    if called is not None:
        row, start, end = _without(called, start, end, order == OPTIMIZER)
        order, leaf, event = order[row], leaf[row], event[row]
    lane = _with_profiler_first(start, end, order)
    owner = lane.owner
    return Told(Lane(lane.start, lane.end, event[owner]), leaf[owner], order[owner] == DATA)


def _without(closures: Lane, start: Int64, end: Int64, step: Bool) -> tuple[Int64, Int64, Int64]:
    """Cut what optimizers' steps call back out of their frames; give each part's row and bounds.

    Frames that end within a closure belong to it, and stay whole.
    """
    cut = step & (piece_at(closures, end - 1) < 0)
    whole, rows = np.flatnonzero(~cut), np.flatnonzero(cut)
    parts = cover(closures, start[rows], end[rows])
    free = parts.piece < 0
    return (
        np.concatenate((whole, rows[parts.query[free]])),
        np.concatenate((start[whole], parts.start[free])),
        np.concatenate((end[whole], parts.end[free])),
    )


def _staged(threads: Threads, found: Told, stages: Stages) -> Told:
    """Cut waits for data by stage, and tell which were for the training process itself."""
    is_data = found.home
    if not is_data.any():
        return found
    at_home = np.array([SINGLE_PROCESS in name for name in threads.trace.names], bool)
    data = found.take(is_data)
    home = at_home[threads.trace.events.name[data.lane.owner]]
    waits = charges(data.lane.start, data.lane.end, data.leaf.astype(np.int64), data.lane.owner)
    cut = staged(replace(waits, home=home), stages)
    waited = told(Lane(cut.start, cut.end, cut.culprit), cut.leaf, cut.home)
    return woven([found.take(~is_data), waited])


def _with_profiler_first(start: Int64, end: Int64, order: Int8) -> Lane:
    """Sweep frames; those of the profiler, which win in any case, apart from the others.

    What the profiler held begins and ends anywhere, so that together they would seldom nest.
    """
    top, rest = np.flatnonzero(order == PROFILER), np.flatnonzero(order != PROFILER)
    held = renamed(sweep_host(start[top], end[top], order[top]), top)
    below = renamed(sweep_host(start[rest], end[rest], order[rest]), rest)
    return merge([held, subtract(below, held)]) if len(held) else below


def _bursts(threads: Threads, lanes: dict[int, Told], lost: Lane) -> dict[int, Told]:
    """Find gaps of other threads in which main began and ended nothing.

    That is the autograd engine between two nodes.
    """
    edges = own_edges(threads)
    found = dict[int, Told]()
    for track, one in lanes.items():
        lane = one.lane
        if track == threads.main or len(lane) <= 1:
            continue
        x, y, after = lane.end[:-1], lane.start[1:], lane.owner[1:]
        quiet = np.searchsorted(edges, x, side="right") == np.searchsorted(edges, y)
        gaps = np.flatnonzero((x < y) & quiet)
        free = subtract(Lane(x[gaps], y[gaps], after[gaps]), lost)
        found[track] = told(free, LEAF["idle.host.engine"])
    return found


def own_edges(threads: Threads) -> Int64:
    """Give when the training thread began or ended something, in order of time.

    What it did for the autograd engine, at or below a node of its, does not count: nodes of CPU
    tensors run on the calling thread meanwhile.
    """
    events, main = threads.trace.events, threads.of(threads.main)
    calls = main[np.isin(events.category[main], _API)]
    nodes = np.array([name.startswith(_EVALUATE) for name in threads.trace.names], bool)
    below = main[nodes[events.name[main]]]
    below = below[np.argsort(events.start[below], kind="stable")]
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(events.end[below])))
    begun = np.searchsorted(events.start[below], events.start[calls], side="right")
    calls = calls[events.end[calls] > reach[begun]]
    return np.sort(np.concatenate((events.start[calls], events.end[calls])))


def _silences(alive: list[Lane]) -> Lane:
    """Give the gaps between anything that is alive that are too long to be called Python."""
    lanes = [_coarse(lane) for lane in alive if len(lane)]
    if not lanes:
        return NO_LANE
    start = np.concatenate([lane.start for lane in lanes])
    seen = union(start, np.concatenate([lane.end for lane in lanes]))
    gap = seen.start[1:] - seen.end[:-1] > UNFRAMED
    return Lane(seen.end[:-1][gap], seen.start[1:][gap], np.full(int(gap.sum()), -1))


def _coarse(lane: Lane) -> Lane:
    """Fill the short gaps of a lane: no long silence of all can lie in them."""
    after = np.flatnonzero(lane.start[1:] - lane.end[:-1] > UNFRAMED) + 1
    head, tail = np.append(0, after), np.append(after, len(lane)) - 1
    return Lane(lane.start[head], lane.end[tail], lane.owner[head])
