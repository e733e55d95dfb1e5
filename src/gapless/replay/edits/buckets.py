"""Reductions of gradients put together: few large ones, each while the backward pass goes on.

A bucket is launched as soon as the last of its gradients is there: where its last reduction was
launched, or, where they were all launched after the backward pass, where that had computed it. All
ranks make the same buckets, by the sizes of the reductions, or by their number where no size is
known. A bucket takes what its reductions take together, less what each call takes by itself.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import Bucket, Change
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64, Trace
from gapless.replay.edits.select import ReplayView
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, GraphThread, Op
from gapless.replay.graph.simulate import fill_column

Column = npt.NDArray[Any]
_REDUCTION: Final = re.compile(r"all_?reduce", re.IGNORECASE)
_GRADIENT: Final = "torch::autograd::AccumulateGrad"
_ISSUE, _DISPATCH = LEAF["idle.comm.host"], LEAF["idle.host.dispatch"]


class _Reduction(Struct, frozen=True):
    """A reduction of a step: where it is launched, and when its gradients are there."""

    thread: int  # → Graph.threads: where a bucket that ends with it is launched
    ready: int
    job: int
    size: int


class _Bucketed(Struct, frozen=True):
    """A step with buckets: what goes, and what is launched in its place."""

    step: int
    jobs: tuple[int, ...]  # all reductions
    is_moved: bool  # from after the backward pass into it
    buckets: tuple[tuple[_Reduction, ...], ...]


def bucket_collectives(view: ReplayView, graph: Graph, changes: Sequence[Change]) -> Graph:
    """Return the graph of a rank whose gradients are reduced in buckets, if a change is that."""
    change = next((change for change in changes if isinstance(change, Bucket)), None)
    if change is None or not len(graph.work.meeting):
        return graph
    steps = [
        _Bucketed(step, tuple(reduction.job for reduction in reductions), is_moved, buckets)
        for step, reductions, is_moved in _find_reductions(view, graph)
        if len(buckets := _split_reductions(reductions, change.count)) < len(reductions)
    ]
    return _launch_buckets(graph, steps, change.transfer.mid) if steps else graph


def _find_reductions(view: ReplayView, graph: Graph) -> list[tuple[int, list[_Reduction], bool]]:
    """Return the reductions of gradients of each step, in the order in which they are ready.

    And whether they were launched after the backward pass.
    """
    trace = view.joined_trace.threads.trace
    is_reduction = _reduction_mask(graph, trace)
    frames = _gradient_frames(graph, trace)
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for index, thread in enumerate(graph.threads):
        launches = np.flatnonzero(thread.ops == Op.LAUNCH)
        for row in launches[is_reduction[thread.args[launches]]].tolist():
            launch = (int(thread.begin[row]), index, int(thread.args[row]))
            rows.setdefault(int(thread.step[row]), []).append(launch)
    reductions = (
        (step, *_order_step(sorted(rows[step]), frames, graph, trace)) for step in sorted(rows)
    )
    return [(step, members, is_moved) for step, members, is_moved in reductions if members]


def _reduction_mask(graph: Graph, trace: Trace) -> Bool:
    """Return which activities reduce over ranks, by the name of their collective or their own."""
    names = np.array([_REDUCTION.search(name) is not None for name in trace.names], bool)
    work = graph.work
    return (work.meeting >= 0) & names[trace.events.name[work.event]]


def _gradient_frames(graph: Graph, trace: Trace) -> Int64:
    """Return (end, start, thread) of the frames that finish a gradient, in order of their ends."""
    if _GRADIENT not in trace.names:
        return np.empty((0, 3), np.int64)
    events = trace.events
    found = np.flatnonzero(events.name == trace.names.index(_GRADIENT))
    number = {thread.track: index for index, thread in enumerate(graph.threads)}
    rows = [
        (int(events.end[event]), int(events.start[event]), number[int(events.track[event])])
        for event in found.tolist()
        if int(events.track[event]) in number
    ]
    return np.array(sorted(rows), np.int64).reshape(-1, 3)


def _order_step(
    launches: Sequence[tuple[int, int, int]], frames: Int64, graph: Graph, trace: Trace
) -> tuple[list[_Reduction], bool]:
    """Return a step's reductions of gradients: those launched once the first gradient is there.

    And whether all were launched after the last.
    """
    last = launches[-1][0]
    before = graph.threads[0]
    step_starts = before.begin[before.ops == Op.STEP]
    start = int(step_starts[step_starts <= launches[0][0]].max(initial=graph.start))
    own = frames[(frames[:, 1] >= start) & (frames[:, 1] <= last)]
    if not len(own):
        return [], False
    launches = [launch for launch in launches if launch[0] >= own[0, 1]]
    if not launches:
        return [], False
    sizes = [_size_of(trace, graph, job) for _, _, job in launches]
    if launches[0][0] < own[-1, 0]:
        in_order = zip(launches, sizes, strict=True)
        return [
            _Reduction(thread, begin, job, size) for (begin, thread, job), size in in_order
        ], False
    count = len(launches)
    reductions: list[_Reduction] = []
    for position in range(count):  # parameters come in the opposite order
        _, _, job = launches[count - 1 - position]
        frame = own[(position + 1) * len(own) // count - 1]
        size = sizes[count - 1 - position]
        reductions.append(_Reduction(int(frame[2]), int(frame[0]), job, size))
    return reductions, True


def _size_of(trace: Trace, graph: Graph, job: int) -> int:
    """Return how many elements a reduction has; 1 where that is not known."""
    detail = trace.events.detail[graph.work.event[job]]
    if not graph.on_device or detail < 0:
        return 1
    number = int(trace.gpu.collective[detail])
    return (trace.collectives[number].in_elements or 1) if number >= 0 else 1


def _split_reductions(
    reductions: Sequence[_Reduction], count: int
) -> tuple[tuple[_Reduction, ...], ...]:
    """Split reductions into so many buckets of about the same size."""
    ends = np.cumsum([reduction.size for reduction in reductions])
    bucket = np.minimum(((ends - 1) * count) // max(int(ends[-1]), 1), count - 1)
    return tuple(
        tuple(reductions[row] for row in np.flatnonzero(bucket == number).tolist())
        for number in np.unique(bucket).tolist()
    )


def _launch_buckets(graph: Graph, steps: Sequence[_Bucketed], factor: float) -> Graph:
    """Return a graph in which buckets take the place of single reductions."""
    work = graph.work
    removed = [job for step in steps for job in step.jobs]
    call_ns = _call_ns(graph, steps)
    duration, late, after = (
        work.duration.copy(),
        fill_column(work.late, len(work.duration)),
        list(work.after),
    )
    last_bucket = {job: step.buckets[-1][-1].job for step in steps for job in step.jobs}
    after = [tuple(dict.fromkeys(last_bucket.get(job, job) for job in waits)) for waits in after]
    kept: set[int] = set()
    for step in steps:
        for bucket in step.buckets:
            job = bucket[-1].job
            kept.add(job)
            moved_ns = sum(max(int(work.duration[member.job]) - call_ns, 0) for member in bucket)
            duration[job], late[job] = call_ns + round(moved_ns * factor), 0
            after[job] = _last_launched(graph, bucket[-1])
    # A reduction that is gone meets nobody.
    meeting = work.meeting.copy()
    meeting[[job for job in removed if job not in kept]] = -1
    threads = tuple(
        _move_launches(graph, index, steps, last_bucket) for index in range(len(graph.threads))
    )
    changed_work = replace(work, duration=duration, late=late, after=tuple(after), meeting=meeting)
    return replace(graph, threads=threads, work=changed_work)


def _call_ns(graph: Graph, steps: Sequence[_Bucketed]) -> int:
    """Return what a reduction takes whatever its size: by sizes, else the usual one's time."""
    members = [member for step in steps for bucket in step.buckets for member in bucket]
    sizes = np.array([member.size for member in members], np.float64)
    durations = graph.work.duration[[member.job for member in members]].astype(np.float64)
    if np.ptp(sizes) == 0:
        return int(np.median(durations))
    slope = np.cov(sizes, durations)[0, 1] / sizes.var(ddof=1)
    return int(np.clip(durations.mean() - slope * sizes.mean(), 0, durations.min()))


def _last_launched(graph: Graph, reduction: _Reduction) -> tuple[int, ...]:
    """Return the activity that was launched last when a gradient was there: it computed it."""
    if not graph.on_device:
        return ()
    thread = graph.threads[reduction.thread]
    rows = np.flatnonzero((thread.ops == Op.LAUNCH) & (thread.begin <= reduction.ready))
    rows = rows[graph.work.meeting[thread.args[rows]] < 0]
    return (int(thread.args[rows[-1]]),) if len(rows) else ()


def _move_launches(
    graph: Graph, index: int, steps: Sequence[_Bucketed], last_bucket: dict[int, int]
) -> GraphThread:
    """Return a thread without its single reductions, with the buckets that it launches.

    Of its waits for them the last of each step stays: for the last bucket.
    """
    thread = graph.threads[index]
    amounts, args, counts = thread.amounts.copy(), thread.args.copy(), thread.counts.copy()
    stays = np.ones(len(thread.ops), bool)
    is_job = np.isin(thread.ops, (Op.LAUNCH, Op.EVENT)) & np.isin(args, list(last_bucket))
    rows: list[tuple[float, int, int]] = []  # (place, job, own time)
    for step in steps:
        own = np.flatnonzero(is_job & np.isin(args, step.jobs))
        waits = own[thread.ops[own] == Op.EVENT]
        stays[own] = False
        if len(waits):
            stays[waits[-1]] = True
            args[waits[-1]] = step.buckets[-1][-1].job
        in_step = thread.step == step.step
        issue_ns = int(amounts[in_step, _ISSUE].sum()) // len(step.jobs)
        if len(own):
            amounts[in_step, _ISSUE] = 0
        if step.is_moved and index == step.buckets[0][0].thread:
            _add_copies(thread, amounts, counts, in_step, len(step.jobs))
        for bucket in step.buckets:
            if bucket[-1].thread == index:
                place = int(np.searchsorted(thread.begin, bucket[-1].ready, side="right")) - 0.5
                rows.append((place, bucket[-1].job, issue_ns))
    changed = replace(thread, amounts=amounts, args=args, counts=counts)
    return _rebuild_thread(changed, stays, sorted(rows))


def _add_copies(
    thread: GraphThread, amounts: Int64, counts: Int64, in_step: Bool, n_copies: int
) -> None:
    """Let the backward pass copy each gradient out of its bucket: as long as its usual launch."""
    launches = np.flatnonzero(in_step & (thread.ops == Op.LAUNCH))
    if len(launches):
        share = n_copies / len(launches)
        usual_ns = np.median(amounts[launches].sum(axis=1) + thread.own_ns[launches])
        amounts[launches, _DISPATCH] += round(float(usual_ns) * share)
        counts[launches] += round(float(np.median(counts[launches])) * share)


def _rebuild_thread(
    thread: GraphThread,
    stays: Bool,
    launches: Sequence[tuple[float, int, int]],
) -> GraphThread:
    """Return a thread without some anchors and with new launches, which take no segment."""
    count, n_new = len(thread.ops), len(launches)
    places = np.concatenate([np.arange(count), [place for place, _, _ in launches]])
    order = np.argsort(places, kind="stable")
    order = order[np.append(stays, np.ones(n_new, bool))[order]]
    before = np.maximum(np.ceil([place for place, _, _ in launches]).astype(np.int64) - 1, 0)

    def stack(column: Column, values: Sequence[int] | Column) -> Column:
        return np.append(column, np.asarray(values, column.dtype))[order]

    segments = _sum_removed(thread, stays)
    zeros = [0] * n_new
    begin = thread.begin[before] if count else np.zeros(n_new, np.int64)
    return replace(
        thread,
        ops=stack(thread.ops, [Op.LAUNCH] * n_new),
        args=stack(thread.args, [job for _, job, _ in launches]),
        amounts=np.concatenate(
            [segments.amounts, np.zeros((n_new, segments.amounts.shape[1]), np.int64)]
        )[order],
        counts=stack(segments.counts, zeros),
        own_ns=stack(thread.own_ns, [own_ns for _, _, own_ns in launches]),
        event=stack(thread.event, [-1] * n_new),
        step=stack(thread.step, thread.step[before]),
        begin=stack(thread.begin, begin),
        end=stack(thread.end, begin),
        stall=stack(segments.stall, zeros),
        under=stack(thread.under, zeros) if len(thread.under) else thread.under,
    )


class _Segments(Struct, frozen=True):
    """What comes before each anchor that stays, with what was before those that go."""

    amounts: Int64
    counts: Int64
    stall: Int64


def _sum_removed(thread: GraphThread, stays: Bool) -> _Segments:
    kept = np.flatnonzero(stays)
    target = np.searchsorted(kept, np.arange(len(stays)))
    inside = target < len(kept)
    amounts, counts = np.zeros_like(thread.amounts), np.zeros_like(thread.counts)
    stall = fill_column(thread.stall, len(stays))
    sums = np.zeros_like(stall)
    rows = kept[target[inside]]
    np.add.at(amounts, rows, thread.amounts[inside])
    np.add.at(counts, rows, thread.counts[inside])
    np.add.at(sums, rows, stall[inside])
    return _Segments(amounts, counts, sums)
