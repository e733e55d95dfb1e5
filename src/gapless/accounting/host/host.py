"""φ: what a host thread was doing, as a leaf and an event to blame (docs: the account, 6)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.charges import (
    NO_CHARGED_LANE,
    ChargedLane,
    Charges,
    charge_lane,
    make_charges,
    merge_charges,
    weave_lanes,
)
from gapless.accounting.device.activities import Activities, clock_error
from gapless.accounting.host.context import Context, refine_tags
from gapless.accounting.host.nesting import innermost_lane
from gapless.accounting.host.stages import NO_STAGES, Stages, split_by_stage
from gapless.accounting.host.tags import DATA, GC, OPTIMIZER, PROFILER, PYTHON, SINGLE_PROCESS
from gapless.accounting.host.threads import Bool, Threads
from gapless.accounting.intervals import (
    NO_LANE,
    Lane,
    cover,
    merge,
    piece_at,
    subtract,
    union,
)
from gapless.accounting.sweep import map_owners, sweep_device, sweep_host
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int8, Int64

UNFRAMED = 5_000_000  # ns, assumed: a longer silence of all threads is not called Python
_EVALUATE = "autograd::engine::evaluate_function"
_API = (category.CPU_OP, category.RUNTIME, category.DRIVER)


class HostSide(Struct, frozen=True):
    """The host side of a trace, ready to be asked."""

    threads: Threads
    context: Context
    lanes: dict[int, ChargedLane]  # thread → its tagged frames, bursts and silences
    collections: ChargedLane  # a garbage collection on any thread
    python: ChargedLane  # main's innermost untagged Python functions
    lost: ChargedLane  # spans in which host events are missing
    clock_error_ns: int  # of the host's clock against the devices', over all launches

    def phi(self, thread: Int64, lo: Int64, hi: Int64) -> Charges:
        """Charge each ``[lo, hi)`` on its thread; sorted by query and time."""
        query, main = np.arange(len(lo)), self.threads.main
        answers, unanswered = list[Charges](), list[Charges]()
        other_tracks = [track for track in self.lanes if track != main]
        for track in other_tracks:
            rows = np.flatnonzero(thread == track)
            answer, holes = self.lanes[track].answer(
                make_charges(lo[rows], hi[rows], 0, query=query[rows])
            )
            unknown, holes = self.lost.answer(holes)
            answers += [answer, unknown]
            unanswered.append(holes)
        is_main = np.isin(thread, other_tracks, invert=True)
        questions = make_charges(lo[is_main], hi[is_main], 0, query=query[is_main])
        return merge_charges(
            [*answers, *self._charge_main(merge_charges([questions, *unanswered]))]
        )

    def _charge_main(self, questions: Charges) -> list[Charges]:
        """Charge what main did: its lane, what is lost, a collection anywhere, else Python."""
        answers = list[Charges]()
        main_lane = self.lanes.get(self.threads.main, NO_CHARGED_LANE)
        for lane in (main_lane, self.lost, self.collections, self.python):
            answer, questions = lane.answer(questions)
            answers.append(answer)
        default_leaf = LEAF["idle.host.python" if self.threads.main >= 0 else "idle.unknown"]
        return [*answers, replace(questions, leaf=np.full(len(questions), default_leaf))]


def prepare_host(threads: Threads, acts: Activities, stages: Stages = NO_STAGES) -> HostSide:
    """Prepare φ for a trace."""
    with ThreadPoolExecutor(1) as pool:  # NumPy lets the other thread run meanwhile
        functions_job = pool.submit(_main_functions, threads)
        context = refine_tags(threads, acts)
        spans = np.array(threads.trace.health.lost, np.int64).reshape(-1, 2)
        lost = union(spans[:, 0], spans[:, 1])
        lost = Lane(lost.start, lost.end, np.full(len(lost), -1))
        lanes = _thread_lanes(threads, context, stages, lost)
        python = functions_job.result()
    collections = _collection_lane(threads, context)
    if threads.main >= 0 and not len(python):
        launch_tracks = {*np.unique(acts.thread[acts.call >= 0]).tolist(), threads.main}
        active_lanes = [lane.lane for track, lane in lanes.items() if track in launch_tracks]
        silence = subtract(_find_silences([*active_lanes, collections]), lost)
        silent_lane = charge_lane(silence, LEAF["idle.host.unframed"])
        lanes[threads.main] = weave_lanes([lanes.get(threads.main, NO_CHARGED_LANE), silent_lane])
    return HostSide(
        threads=threads,
        context=context,
        lanes=lanes,
        collections=charge_lane(collections, LEAF["idle.gc"]),
        python=charge_lane(python, LEAF["idle.host.python"]),
        lost=charge_lane(lost, LEAF["idle.unknown"]),
        clock_error_ns=clock_error(acts),
    )


def _main_functions(threads: Threads) -> Lane:
    """Return main's innermost untagged Python functions (owner: event)."""
    events, main = threads.trace.events, threads.frames_of(threads.main)
    functions = main[threads.tags.order[main] == PYTHON]
    lane = innermost_lane(events.start[functions], events.end[functions])
    return Lane(lane.start, lane.end, functions[lane.owner])


def _collection_lane(threads: Threads, context: Context) -> Lane:
    """Return when a garbage collection ran on any thread; of several, the one that began first."""
    events = threads.trace.events
    gc = threads.frames[context.order[threads.frames] == GC]
    gc = gc[np.lexsort((events.end[gc], events.start[gc]))]
    lane = sweep_device(events.start[gc], events.end[gc], np.zeros(len(gc), np.int64))
    return Lane(lane.start, lane.end, gc[lane.owner])


def _thread_lanes(
    threads: Threads, context: Context, stages: Stages, lost: Lane
) -> dict[int, ChargedLane]:
    """Return the lane of each thread, with the bursts of those that are not main."""
    tracks = list(dict.fromkeys([*threads.bounds, *context.held_track.tolist()]))
    lanes = {track: _sweep_thread(threads, context, track) for track in tracks}
    bursts = _engine_bursts(threads, lanes, lost)
    for track in tracks:  # one by one: a lane of a long trace is a hundred megabytes
        lane = _stage_waits(threads, lanes.pop(track), stages)
        lanes[track] = weave_lanes([lane, bursts.get(track, NO_CHARGED_LANE)])
        del lane
    return lanes


def _sweep_thread(threads: Threads, context: Context, track: int) -> ChargedLane:
    """Sweep the tagged frames of one thread, and flag waits for data of its own process."""
    events = threads.trace.events
    frames = threads.frames_of(track)
    frames = frames[context.order[frames] < PYTHON]
    held_rows = np.flatnonzero(context.held_track == track)
    start = np.concatenate((events.start[frames], context.held_start[held_rows]))
    end = np.concatenate((events.end[frames], context.held_end[held_rows]))
    order = np.concatenate((context.order[frames], np.zeros(len(held_rows), np.int8)))
    event = np.concatenate((frames, context.held_event[held_rows]))
    leaf = np.concatenate(
        (context.leaf[frames], np.full(len(held_rows), LEAF["idle.profiler"], np.int8))
    )
    closures = threads.closures.get(track)
    if closures is not None:
        row, start, end = _cut_closures(closures, start, end, order == OPTIMIZER)
        order, leaf, event = order[row], leaf[row], event[row]
    lane = _sweep_profiler_first(start, end, order)
    owner = lane.owner
    return ChargedLane(Lane(lane.start, lane.end, event[owner]), leaf[owner], order[owner] == DATA)


def _cut_closures(
    closures: Lane, start: Int64, end: Int64, step: Bool
) -> tuple[Int64, Int64, Int64]:
    """Cut what optimizers' steps call back out of their frames; return each part's row and bounds.

    Frames that end within a closure belong to it, and stay whole.
    """
    cut = step & (piece_at(closures, end - 1) < 0)
    uncut, rows = np.flatnonzero(~cut), np.flatnonzero(cut)
    pieces = cover(closures, start[rows], end[rows])
    is_free = pieces.piece < 0
    return (
        np.concatenate((uncut, rows[pieces.query[is_free]])),
        np.concatenate((start[uncut], pieces.start[is_free])),
        np.concatenate((end[uncut], pieces.end[is_free])),
    )


def _stage_waits(threads: Threads, thread_lane: ChargedLane, stages: Stages) -> ChargedLane:
    """Cut waits for data by stage, and flag those for the training process itself."""
    is_data = thread_lane.is_loading
    if not is_data.any():
        return thread_lane
    is_single = np.array([SINGLE_PROCESS in name for name in threads.trace.names], bool)
    data = thread_lane.take(is_data)
    is_loading = is_single[threads.trace.events.name[data.lane.owner]]
    waits = make_charges(
        data.lane.start, data.lane.end, data.leaf.astype(np.int64), data.lane.owner
    )
    cut = split_by_stage(replace(waits, is_loading=is_loading), stages)
    stage_lane = charge_lane(Lane(cut.start, cut.end, cut.culprit), cut.leaf, cut.is_loading)
    return weave_lanes([thread_lane.take(~is_data), stage_lane])


def _sweep_profiler_first(start: Int64, end: Int64, order: Int8) -> Lane:
    """Sweep frames; those of the profiler, which win in any case, apart from the others.

    What the profiler held begins and ends anywhere, so that together they would seldom nest.
    """
    top_rows, other_rows = np.flatnonzero(order == PROFILER), np.flatnonzero(order != PROFILER)
    profiler_lane = map_owners(
        sweep_host(start[top_rows], end[top_rows], order[top_rows]), top_rows
    )
    other_lane = map_owners(
        sweep_host(start[other_rows], end[other_rows], order[other_rows]), other_rows
    )
    return (
        merge([profiler_lane, subtract(other_lane, profiler_lane)])
        if len(profiler_lane)
        else other_lane
    )


def _engine_bursts(
    threads: Threads, lanes: dict[int, ChargedLane], lost: Lane
) -> dict[int, ChargedLane]:
    """Find gaps in which the autograd engine goes from one node to the next.

    Of main they lie between two nodes (those of CPU tensors run on the calling thread); of another
    thread they are those in which main began and ended nothing.
    """
    edges = main_edges(threads)
    bursts = dict[int, ChargedLane]()
    for track, thread_lane in lanes.items():
        lane = thread_lane.lane
        if len(lane) <= 1:
            continue
        if track in threads.trace.roles.executors:  # no engine: what it waits for is unknown
            continue
        x, y, after = lane.end[:-1], lane.start[1:], lane.owner[1:]
        if track == threads.main:
            node_start, node_end = _node_edges(threads)
            is_engine = np.isin(x, node_end) & np.isin(y, node_start) & (y - x <= UNFRAMED)
        else:
            is_engine = np.searchsorted(edges, x, side="right") == np.searchsorted(edges, y)
        gaps = np.flatnonzero((x < y) & is_engine)
        gap_lane = subtract(Lane(x[gaps], y[gaps], after[gaps]), lost)
        bursts[track] = charge_lane(gap_lane, LEAF["idle.host.engine"])
    return bursts


def main_edges(threads: Threads) -> Int64:
    """Return when the training thread began or ended something, in order of time.

    What it did for the autograd engine, at or below a node of its, does not count: nodes of CPU
    tensors run on the calling thread meanwhile.
    """
    events, main = threads.trace.events, threads.frames_of(threads.main)
    calls = main[np.isin(events.category[main], _API)]
    node_start, node_end = _node_edges(threads)
    reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(node_end)))
    n_begun = np.searchsorted(node_start, events.start[calls], side="right")
    calls = calls[events.end[calls] > reach[n_begun]]
    return np.sort(np.concatenate((events.start[calls], events.end[calls])))


def _node_edges(threads: Threads) -> tuple[Int64, Int64]:
    """Return when the nodes that the engine evaluated on main began and ended, by their begin."""
    events, main = threads.trace.events, threads.frames_of(threads.main)
    nodes = np.array([name.startswith(_EVALUATE) for name in threads.trace.names], bool)
    node_frames = main[nodes[events.name[main]]]
    node_frames = node_frames[np.argsort(events.start[node_frames], kind="stable")]
    return events.start[node_frames], events.end[node_frames]


def _find_silences(active_lanes: list[Lane]) -> Lane:
    """Return the gaps between anything that is alive that are too long to be called Python."""
    lanes = [_fill_gaps(lane) for lane in active_lanes if len(lane)]
    if not lanes:
        return NO_LANE
    start = np.concatenate([lane.start for lane in lanes])
    active = union(start, np.concatenate([lane.end for lane in lanes]))
    is_gap = active.start[1:] - active.end[:-1] > UNFRAMED
    return Lane(active.end[:-1][is_gap], active.start[1:][is_gap], np.full(int(is_gap.sum()), -1))


def _fill_gaps(lane: Lane) -> Lane:
    """Fill the short gaps of a lane: no long silence of all can lie in them."""
    after = np.flatnonzero(lane.start[1:] - lane.end[:-1] > UNFRAMED) + 1
    head, tail = np.append(0, after), np.append(after, len(lane)) - 1
    return Lane(lane.start[head], lane.end[tail], lane.owner[head])
