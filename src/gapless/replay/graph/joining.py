"""Graphs of ranks as one: what all of them come to is a collective, which waits for the last.

Each rank keeps its threads, streams and steps; only collectives tie them. What a collective takes
once the last rank has come is what it took in the trace. Its number is the same on all ranks.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.ranks.collectives import Arrivals
from gapless.model.trace import Int64, Trace
from gapless.replay.graph.nodes import Graph, GraphThread, GraphWork, Op, RankSpan, Refusal
from gapless.replay.graph.simulate import fill_column

_JOBS = (Op.LAUNCH, Op.COPY, Op.EVENT)
_HAND_OFFS = (Op.EMIT, Op.WAIT)


class RankGraph(Struct, frozen=True):
    """The graph of one rank on its own axis, which is so much ahead of the first rank's."""

    graph: Graph
    shift_ns: int


def meet_ranks(
    graphs: Sequence[Graph], traces: Sequence[Trace], arrivals: Sequence[Arrivals]
) -> tuple[RankGraph, ...] | Refusal:
    """Mark the collectives that all of their ranks hold, with what they take after the last came.

    The ranks must be tied by them, each with any other that is.
    """
    meetings = [_meeting_rows(graph, rank) for graph, rank in zip(graphs, arrivals, strict=True)]
    common = _find_common(meetings)
    shifts = _find_shifts(arrivals, common)
    if shifts is None:
        return Refusal("the windows of its ranks hold no collective that all of them came to")
    counts = {len(graph.steps) for graph in graphs}
    if len(counts) > 1:
        return Refusal("the windows of its ranks hold different steps")
    marked = [
        _mark_rank(graph, trace, rank, rows, common)
        for graph, trace, (rank, rows) in zip(graphs, traces, meetings, strict=True)
    ]
    return tuple(RankGraph(graph, shift) for graph, shift in zip(marked, shifts, strict=True))


def _meeting_rows(graph: Graph, arrivals: Arrivals) -> tuple[Arrivals, Int64]:
    """Return for each arrival the activity of the graph that it is of, −1."""
    event = graph.work.event.astype(np.int64)
    order = np.argsort(event, kind="stable")
    position = np.searchsorted(event[order], arrivals.event)
    position = np.minimum(position, max(len(order) - 1, 0))
    if not len(order):
        return arrivals, np.full(len(arrivals.event), -1)
    return arrivals, np.where(event[order][position] == arrivals.event, order[position], -1)


def _find_common(meetings: Sequence[tuple[Arrivals, Int64]]) -> Int64:
    """Return the numbers of the collectives whose every part is an activity of a graph."""
    numbers = np.concatenate([rank.meeting for rank, _ in meetings])
    is_held = np.concatenate([rows >= 0 for _, rows in meetings])
    return np.setdiff1d(numbers[is_held], numbers[~is_held])


def _find_shifts(arrivals: Sequence[Arrivals], common: Int64) -> list[int] | None:
    """Return how far each rank's axis is ahead of the first's; ``None``: some rank is not tied."""
    common_numbers = set(common.tolist())
    starts = [
        {number: start for number, start in pairs.items() if number in common_numbers}
        for pairs in (
            dict(zip(rank.meeting.tolist(), rank.last_start.tolist(), strict=True))
            for rank in arrivals
        )
    ]
    shifts, untied_ranks = {0: 0}, set(range(1, len(starts)))
    tied_ranks = [0]
    for tied_rank in tied_ranks:  # it grows
        for rank in sorted(untied_ranks):
            if numbers := starts[rank].keys() & starts[tied_rank].keys():
                leads = [starts[rank][number] - starts[tied_rank][number] for number in numbers]
                shifts[rank] = shifts[tied_rank] + int(np.median(leads))
                tied_ranks.append(rank)
                untied_ranks.remove(rank)
    is_tied = len(common) and not untied_ranks
    return [shifts[rank] for rank in range(len(starts))] if is_tied else None


def _mark_rank(graph: Graph, trace: Trace, arrivals: Arrivals, rows: Int64, common: Int64) -> Graph:
    """Return a rank's graph with its parts of collectives: numbered, and without waits."""
    work = graph.work
    is_met = np.isin(arrivals.meeting, common)
    jobs, last_start = rows[is_met], arrivals.last_start[is_met]
    duration, meeting = work.duration.copy(), np.full(len(work.duration), -1, np.int32)
    ends = trace.events.start[work.event[jobs]] + duration[jobs]
    duration[jobs] = np.maximum(
        ends - np.maximum(last_start, trace.events.start[work.event[jobs]]), 1
    )
    meeting[jobs] = arrivals.meeting[is_met]
    return replace(graph, work=replace(work, duration=duration, meeting=meeting))


def join_graphs(ranks: Sequence[RankGraph]) -> Graph:
    """Return one graph of all ranks, on the axis of the first; steps are their means."""
    graphs = [rank.graph for rank in ranks]
    first = graphs[0]
    offsets = _Offsets.count(graphs)
    steps = np.stack([rank.graph.steps - rank.shift_ns for rank in ranks])
    counted = set(first.counted_steps).intersection(*(graph.counted_steps for graph in graphs))
    heads = [_heads(rank) for rank in ranks]
    return replace(
        first,
        threads=tuple(
            _move_thread(thread, offsets.of_rank(index))
            for index, graph in enumerate(graphs)
            for thread in graph.threads
        ),
        work=_stack_work([graph.work for graph in graphs], offsets),
        streams=tuple(stream for graph in graphs for stream in graph.streams),
        capacity=tuple(count for graph in graphs for count in graph.capacity),
        backlog_ends=np.concatenate(
            [_shift_ends(rank.graph.backlog_ends, rank.shift_ns) for rank in ranks]
        ),
        steps=steps.sum(axis=0) // len(ranks),
        start=min(rank.graph.start - rank.shift_ns for rank in ranks),
        unexplained=sum(graph.unexplained for graph in graphs) / len(graphs),
        notes=tuple(dict.fromkeys(note for graph in graphs for note in graph.notes)),
        heads=tuple(head for rank_heads in heads for head in rank_heads),
        counted_steps=tuple(sorted(counted)),
        is_aligned=all(graph.is_aligned for graph in graphs),
        ranks=tuple(
            RankSpan(
                (offsets.threads[index], offsets.threads[index + 1]),
                (offsets.streams[index], offsets.streams[index + 1]),
                rank.graph.start - rank.shift_ns,
            )
            for index, rank in enumerate(ranks)
        ),
    )


class _Offset(Struct, frozen=True):
    """By how much the numbers of a rank grow in the joint graph."""

    jobs: int
    streams: int
    hand_offs: int


class _Offsets(Struct, frozen=True):
    """What was counted before each rank, and in the end."""

    threads: tuple[int, ...]
    streams: tuple[int, ...]
    jobs: tuple[int, ...]
    hand_offs: tuple[int, ...]

    @classmethod
    def count(cls, graphs: Sequence[Graph]) -> "_Offsets":
        """Count threads, streams, activities and hand-offs."""
        return cls(
            _sum_up(len(graph.threads) for graph in graphs),
            _sum_up(len(graph.streams) for graph in graphs),
            _sum_up(len(graph.work.stream) for graph in graphs),
            _sum_up(max(map(_count_hand_offs, graph.threads), default=0) for graph in graphs),
        )

    def of_rank(self, index: int) -> _Offset:
        """Return what was before one rank."""
        return _Offset(self.jobs[index], self.streams[index], self.hand_offs[index])


def _sum_up(counts: Iterable[int]) -> tuple[int, ...]:
    return tuple(accumulate(counts, initial=0))


def _count_hand_offs(thread: GraphThread) -> int:
    return int(thread.args[np.isin(thread.ops, _HAND_OFFS)].max(initial=-1)) + 1


def _move_thread(thread: GraphThread, offset: _Offset) -> GraphThread:
    args = thread.args.copy()
    is_known = args >= 0
    args[is_known & np.isin(thread.ops, _JOBS)] += offset.jobs
    args[is_known & (thread.ops == Op.SYNC)] += offset.streams
    args[np.isin(thread.ops, _HAND_OFFS)] += offset.hand_offs
    return replace(thread, args=args)


def _stack_work(works: Sequence[GraphWork], offsets: _Offsets) -> GraphWork:
    counts = [len(work.stream) for work in works]
    return GraphWork(
        stream=np.concatenate(
            [work.stream + offsets.streams[index] for index, work in enumerate(works)]
        ).astype(np.int32),
        duration=np.concatenate([work.duration for work in works]),
        lag=np.concatenate([work.lag for work in works]),
        gap=np.concatenate([work.gap for work in works]),
        after=tuple(
            tuple(job + offsets.jobs[index] for job in waits)
            for index, work in enumerate(works)
            for waits in work.after
        ),
        leaf=np.concatenate([work.leaf for work in works]),
        event=np.concatenate([work.event for work in works]),
        late=np.concatenate(
            [fill_column(work.late, count) for work, count in zip(works, counts, strict=True)]
        ),
        slot=np.concatenate(
            [fill_column(work.slot, count, 1) for work, count in zip(works, counts, strict=True)]
        ).astype(np.int8),
        hop=max(work.hop for work in works),
        meeting=np.concatenate(
            [
                fill_column(work.meeting, count, -1)
                for work, count in zip(works, counts, strict=True)
            ]
        ).astype(np.int32),
    )


def _heads(rank: RankGraph) -> tuple[Int64, ...]:
    graph = rank.graph
    heads = graph.heads or tuple(np.empty(0, np.int64) for _ in graph.streams)
    return tuple(head - rank.shift_ns for head in heads)


def _shift_ends(ends: Int64, shift_ns: int) -> Int64:
    return np.where(ends >= 0, ends - shift_ns, ends)
