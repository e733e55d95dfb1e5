"""Other buckets: the same gradients, exchanged in other groups, each once the last of it is ready.

Transfers follow one another; each takes α + β × bytes, of which both are those of the window's own
collectives: together they take as long as these. What waited for the collectives of a pass waits
for the last of its buckets.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.intervals import NO_LANE, Lane, empty_column, subtract, union
from gapless.model.change import Bucket, Change
from gapless.model.trace import Int64
from gapless.replay.edits.changes import cut_lane
from gapless.replay.edits.draft import finish_draft, open_draft
from gapless.replay.edits.gradients import BackwardPass, find_passes
from gapless.replay.edits.insertion import (
    NO_COST,
    CallCost,
    Insert,
    NewActivities,
    add_activities,
    insert_anchors,
    jobs_after,
    jobs_before,
)
from gapless.replay.edits.select import ReplayView, find_calls, join_lanes, measure_contents
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, GraphThread, Op

_MIN_SIZE_RATIO: Final = 4.0  # of the largest to the smallest bucket, to part α from β
_FIRST_MEETING: Final = 1 << 24  # beyond all collectives of a trace
_MAX_BUCKETS: Final = 1 << 12  # of a pass
_MAX_PASSES: Final = 1 << 7  # of a step


class _Buckets(Struct, frozen=True):
    """The buckets that a pass is to have: after which gradients they go, and what each takes."""

    ready: Int64
    duration: Int64
    waits: Int64  # when the host waits for each
    wait_track: int
    waiting: tuple[tuple[int, ...], ...]  # of each: events of a device that wait for it
    like: int  # an activity that was in their place


def find_buckets(changes: Sequence[Change]) -> Bucket | None:
    """Return the buckets that changes ask for; ``None``: they leave them as they are."""
    return next((change for change in changes if isinstance(change, Bucket)), None)


def regroup_gradients(view: ReplayView, graph: Graph, change: Bucket) -> Graph:
    """Return the graph of a rank whose gradients are exchanged in other buckets."""
    passes = find_passes(view, graph)
    share = _latency_share(graph, passes, change.latency.mid)
    buckets = [_make_buckets(view, graph, backward, change, share) for backward in passes]
    call = _measure_call(view, graph, passes)
    names = _name_passes(graph, passes)
    regrouped, removed = _remove_exchanges(view, graph, passes)
    for backward, row, name in zip(passes, buckets, names, strict=True):
        new = _new_activities(graph, regrouped, backward, row, name)
        regrouped, numbers = add_activities(regrouped, new, row.waiting)
        inserts = _make_inserts(backward, row, numbers, call, is_awaited=not graph.on_device)
        regrouped = _insert(regrouped, inserts, removed)
    return regrouped


def _latency_share(graph: Graph, passes: Sequence[BackwardPass], usual_share: float) -> float:
    """Return the share of exchanges that does not grow with bytes: fitted, if their sizes tell."""
    jobs = np.concatenate([empty_column(), *(backward.jobs for backward in passes)])
    sizes = np.concatenate([empty_column(), *(backward.job_bytes for backward in passes)])
    if not len(sizes) or sizes.max() < _MIN_SIZE_RATIO * sizes.min():
        return usual_share
    kinds, counts = np.unique(sizes, return_counts=True)
    times_ns = [float(np.median(graph.work.duration[jobs[sizes == size]])) for size in kinds]
    slope, call_ns = np.polyfit(kinds.astype(float), times_ns, 1, w=np.sqrt(counts))
    latency, transfer = max(0.0, call_ns) * len(sizes), max(0.0, slope) * float(sizes.sum())
    return latency / (latency + transfer) if latency + transfer else usual_share


def _make_buckets(
    view: ReplayView, graph: Graph, backward: BackwardPass, change: Bucket, share: float
) -> _Buckets:
    closing, n_bytes = _group(backward.bytes, change)
    total_ns = _busy_ns(view, graph, backward)
    latency_ns = share * total_ns / len(backward.jobs)
    durations = latency_ns + (1 - share) * total_ns * n_bytes / backward.bytes.sum()
    first = np.concatenate(([0], closing[:-1] + 1))
    has_copies = len(backward.copies) > 0
    wait, wait_track = _find_wait(graph, backward)
    return _Buckets(
        ready=backward.ready[closing],
        duration=np.maximum(np.rint(durations).astype(np.int64), 1),
        waits=backward.copies[first] if has_copies else np.full(len(closing), wait),
        wait_track=backward.copy_track if has_copies else wait_track,
        waiting=_find_waiting(graph, backward, first),
        like=int(backward.jobs[0]),
    )


def _measure_call(view: ReplayView, graph: Graph, passes: Sequence[BackwardPass]) -> CallCost:
    """Return what a thread does to hand a collective over, where nothing holds it up."""
    amounts, lengths, counts, own_ns = NO_COST.amounts, list[int](), 0, list[int]()
    threads = {thread.track: thread for thread in graph.threads}
    for backward in passes:
        thread, calls = threads[backward.call_track], backward.calls
        contents = measure_contents(view, thread, calls)
        amounts = amounts + contents.amounts.sum(axis=0)
        counts += int(contents.counts.sum())
        lengths += (calls.end - calls.start).tolist()
        is_launch = (thread.ops == Op.LAUNCH) & _is_about(thread, backward)
        own_ns += thread.own_ns[is_launch].tolist()
    if not lengths:
        return NO_COST
    usual = min(1.0, float(np.median(lengths)) / max(1.0, float(np.mean(lengths))))
    return CallCost(
        np.rint(amounts * usual / len(lengths)).astype(np.int64),
        round(counts / len(lengths)),
        int(np.median(own_ns)),
    )


def _group(sizes: Int64, change: Bucket) -> tuple[Int64, Int64]:
    """Return the last gradient of each bucket, and its bytes: full at its limit, not before."""
    closing, n_bytes, bucket_bytes = list[int](), list[int](), 0
    for position, size in enumerate(sizes.tolist()):
        bucket_bytes += size
        limit = change.cap_bytes if closing else change.first_bytes
        if bucket_bytes >= limit or position == len(sizes) - 1:
            closing.append(position)
            n_bytes.append(bucket_bytes)
            bucket_bytes = 0
    return np.array(closing, np.int64), np.array(n_bytes, np.int64)


def _busy_ns(view: ReplayView, graph: Graph, backward: BackwardPass) -> int:
    """Return how long the collectives of a pass took, side by side, once all ranks had come."""
    end = view.joined_trace.threads.trace.events.end[graph.work.event[backward.jobs]]
    lane = union(end - graph.work.duration[backward.jobs], end)
    return int((lane.end - lane.start).sum())


def _find_wait(graph: Graph, backward: BackwardPass) -> tuple[int, int]:
    """Return when the host waits for the collectives of a pass, at the end of it, and where."""
    last_ready = int(backward.ready[-1])
    waits = [
        (instant, thread.track)
        for thread in graph.threads
        for instant in thread.begin[_is_wait(thread, backward)].tolist()
        if instant >= last_ready
    ]
    return min(waits, default=(last_ready, backward.track))


def _is_wait(thread: GraphThread, backward: BackwardPass) -> Bool:
    return (thread.ops == Op.EVENT) & _is_about(thread, backward)


def _is_about(thread: GraphThread, backward: BackwardPass) -> Bool:
    """Return which anchors launch the collectives of a pass, or wait for them."""
    return np.isin(thread.ops, (Op.LAUNCH, Op.EVENT)) & np.isin(thread.args, backward.jobs)


def _find_waiting(
    graph: Graph, backward: BackwardPass, first: Int64
) -> tuple[tuple[int, ...], ...]:
    """Return what of the device waits for each bucket, as events of the trace.

    What copies its first gradient back; without copies, all that waited for the old ones waits for
    the last.
    """
    if not graph.on_device:
        return tuple(() for _ in first)
    work, jobs = graph.work, set(backward.jobs.tolist())
    if len(backward.copies):
        thread = next(thread for thread in graph.threads if thread.track == backward.copy_track)
        rows = jobs_after(thread, backward.copies[first])
        return tuple((int(work.event[row]),) if row >= 0 else () for row in rows.tolist())
    waiting = (row for row, after in enumerate(work.after) if not jobs.isdisjoint(after))
    events = tuple(int(work.event[row]) for row in waiting)
    return (*(() for _ in first[1:]), events)


def _remove_exchanges(
    view: ReplayView, graph: Graph, passes: Sequence[BackwardPass]
) -> tuple[Graph, dict[int, Lane]]:
    """Return the graph without the collectives of some passes, and what went of each thread."""
    draft, removed = open_draft(graph), dict[int, Lane]()
    for sheet in draft.sheets:
        thread = sheet.thread
        is_wait = np.zeros(len(thread.ops), bool)
        for backward in passes:
            is_wait |= _is_wait(thread, backward)
            sheet.stays &= ~_is_about(thread, backward)
        own_passes = [backward for backward in passes if backward.call_track == thread.track]
        lanes = [_exchange_lane(view, thread, backward) for backward in own_passes]
        if lanes:
            lane = join_lanes([{0: lane} for lane in lanes])[0]
            cut_lane(view, sheet, lane)
            waits = union(thread.begin[is_wait], thread.end[is_wait])
            removed[thread.track] = join_lanes([{0: lane}, {0: waits}])[0]
    remaining = finish_draft(draft)
    return replace(remaining, backlog_ends=graph.backlog_ends, heads=graph.heads), removed


def _exchange_lane(view: ReplayView, thread: GraphThread, backward: BackwardPass) -> Lane:
    """Return what a thread does for its collectives: by hand also what lies between their calls.

    Operators there are as many as a wrapper calls: they divide gradients, or copy them.
    """
    calls = backward.calls
    if not backward.is_by_hand:
        return calls
    ends = thread.end[_is_wait(thread, backward)]
    stop = np.array([max(int(calls.end[-1]), int(ends.max(initial=0)))])
    operators = find_calls(view, ("aten::*",))
    events = view.joined_trace.threads.trace.events
    operators = operators[events.track[operators] == thread.track]
    block = Lane(calls.start[:1], stop, calls.owner[:1])
    between = subtract(block, union(events.start[operators], events.end[operators]))
    return join_lanes([{0: calls}, {0: between}])[0]


def _name_passes(graph: Graph, passes: Sequence[BackwardPass]) -> list[int]:
    """Return the numbers of passes on all ranks: by their steps, and their order in these."""
    threads = {thread.track: thread for thread in graph.threads}
    names, counts = list[int](), Counter[int]()
    for backward in passes:
        thread = threads[backward.track]
        row = int(np.searchsorted(thread.begin, backward.ready[-1:])[0])
        step = int(thread.step[min(row, len(thread.step) - 1)])
        names.append((step + 1) * _MAX_PASSES + counts[step])
        counts[step] += 1
    return names


def _new_activities(
    graph: Graph, regrouped: Graph, backward: BackwardPass, buckets: _Buckets, name: int
) -> NewActivities:
    work, like = graph.work, buckets.like
    thread = next(thread for thread in regrouped.threads if thread.track == backward.track)
    return NewActivities(
        launch=buckets.ready,
        before=jobs_before(thread, buckets.ready),
        duration=buckets.duration,
        meeting=_FIRST_MEETING + name * _MAX_BUCKETS + np.arange(len(buckets.ready)),
        stream=int(work.stream[like]),
        lag=max(0, int(np.median(work.lag[backward.jobs]))),
        gap=int(work.gap[backward.jobs].min()),
        leaf=int(work.leaf[like]),
        event=int(work.event[like]),
    )


def _make_inserts(
    backward: BackwardPass, buckets: _Buckets, numbers: Int64, call: CallCost, *, is_awaited: bool
) -> dict[int, list[Insert]]:
    """Return what launches the buckets of a pass, and waits for them, by thread."""
    jobs: list[int] = numbers.tolist()
    launches = [
        Insert(instant, Op.LAUNCH, job, call)
        for instant, job in zip(buckets.ready.tolist(), jobs, strict=True)
    ]
    waits = [
        Insert(instant, Op.EVENT, job)
        for instant, job in zip(buckets.waits.tolist(), jobs, strict=True)
        if is_awaited
    ]
    if backward.track == buckets.wait_track:
        return {backward.track: [*launches, *waits]}
    return {backward.track: launches, buckets.wait_track: waits}


def _insert(
    graph: Graph, inserts: Mapping[int, Sequence[Insert]], removed: Mapping[int, Lane]
) -> Graph:
    threads = tuple(
        insert_anchors(
            thread, inserts[thread.track], removed.get(thread.track, NO_LANE), graph.start
        )
        if thread.track in inserts
        else thread
        for thread in graph.threads
    )
    return replace(graph, threads=threads)
