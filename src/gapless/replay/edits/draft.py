"""A graph that is being changed: its columns as they will be, and what goes."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.trace import Int8, Int32, Int64
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, GraphThread, GraphWork, Op
from gapless.replay.graph.simulate import fill_column

_LAUNCHES = (Op.LAUNCH, Op.COPY)


class ThreadSheet(Struct):
    """A thread that is being changed, anchor by anchor."""

    thread: GraphThread  # as it was
    ops: Int8
    args: Int32
    amounts: Int64
    counts: Int64
    own_ns: Int64
    stays: Bool

    def launching_rows(self) -> Int64:
        """Return the anchors that still launch an activity."""
        return np.flatnonzero(self.stays & np.isin(self.ops, _LAUNCHES))


class Draft(Struct):
    """A graph that is being changed."""

    graph: Graph  # as it was
    sheets: list[ThreadSheet]
    stream: Int32
    duration: Int64
    lag: Int64
    gap: Int64
    late: Int64
    slot: Int64
    after: list[tuple[int, ...]]
    streams: list[tuple[int, int]]


def open_draft(graph: Graph) -> Draft:
    """Return a graph to be changed."""
    work, count = graph.work, len(graph.work.stream)
    return Draft(
        graph=graph,
        sheets=[
            ThreadSheet(
                thread=thread,
                ops=thread.ops.copy(),
                args=thread.args.copy(),
                amounts=thread.amounts.copy(),
                counts=thread.counts.copy(),
                own_ns=thread.own_ns.copy(),
                stays=np.ones(len(thread.ops), bool),
            )
            for thread in graph.threads
        ],
        stream=work.stream.copy(),
        duration=work.duration.copy(),
        lag=work.lag.copy(),
        gap=work.gap.copy(),
        late=fill_column(work.late, count),
        slot=fill_column(work.slot, count, 1),
        after=list(work.after),
        streams=list(graph.streams),
    )


def finish_draft(draft: Draft) -> Graph:
    """Return the changed graph: what goes is removed, and references to it point to what stays.

    What waited for a removed activity waits for the one before it on its stream.
    """
    before = draft.graph.work
    launched_jobs = [sheet.args[sheet.launching_rows()] for sheet in draft.sheets]
    rows = np.unique(np.concatenate([np.empty(0, np.int32), *launched_jobs]))
    jobs: list[int] = rows.tolist()
    number = np.full(len(draft.stream), -1)
    number[rows] = np.arange(len(rows))
    number = _find_substitutes(draft, number)
    work = GraphWork(
        stream=draft.stream[rows],
        duration=draft.duration[rows],
        lag=draft.lag[rows],
        gap=draft.gap[rows],
        after=tuple(_map_waits(draft.after[row], number) for row in jobs),
        leaf=before.leaf[rows],
        event=before.event[rows],
        late=draft.late[rows],
        slot=draft.slot[rows].astype(np.int8),
        hop=before.hop,
        meeting=before.meeting[rows] if len(before.meeting) else before.meeting,
    )
    n_new = len(draft.streams) - len(draft.graph.streams)
    no_ends = np.empty(0, np.int64)
    graph = draft.graph
    return replace(
        graph,
        threads=tuple(_finish_thread(sheet, number) for sheet in draft.sheets),
        work=work,
        streams=tuple(draft.streams),
        capacity=(*graph.capacity, *(max(graph.capacity, default=1) for _ in range(n_new))),
        backlog_ends=np.concatenate(
            (_scale_ends(draft, work, graph.backlog_ends), np.full(n_new, -1))
        ),
        heads=(
            *(_scale_ends(draft, work, head) for head in graph.heads),
            *(no_ends for _ in range(n_new)),
        )
        if graph.heads
        else (),
    )


def _scale_ends(draft: Draft, work: GraphWork, ends: Int64) -> Int64:
    """Return the scaled ends of what was enqueued before the window: of work like that within it.

    A device that is behind begins a window with steps of work; changed kernels are among it.
    """
    before, start = int(draft.graph.work.duration.sum()), draft.graph.start
    if not draft.graph.on_device or not before:
        return ends
    ratio = int(work.duration.sum()) / before
    after = start + np.rint((ends - start) * ratio).astype(np.int64)
    return np.where(ends > start, after, ends)


def _map_waits(waits: tuple[int, ...], number: Int64) -> tuple[int, ...]:
    mapped = [int(number[job]) for job in waits]
    return tuple(job for job in mapped if job >= 0)


def _find_substitutes(draft: Draft, number: Int64) -> Int64:
    """Replace removed activities by the one before on the same stream; −1 where there is none."""
    substitutes = number.copy()
    for stream in np.unique(draft.stream).tolist():
        rows = np.flatnonzero(draft.stream == stream)
        kept_rows = np.where(number[rows] >= 0, np.arange(len(rows)), -1)
        last_kept = np.maximum.accumulate(kept_rows)
        substitutes[rows] = np.where(last_kept >= 0, number[rows][np.maximum(last_kept, 0)], -1)
    return substitutes


def _finish_thread(sheet: ThreadSheet, number: Int64) -> GraphThread:
    """Return a thread without the removed anchors; what remains of their segments comes after."""
    rows = np.flatnonzero(sheet.stays)
    thread = sheet.thread
    ops, args = sheet.ops[rows], sheet.args[rows].copy()
    jobs = np.isin(ops, (*_LAUNCHES, Op.EVENT)) & (args >= 0)
    args[jobs] = number[args[jobs]]
    stall = fill_column(thread.stall, len(thread.ops))
    return replace(
        thread,
        ops=ops,
        args=args,
        amounts=_sum_segments(sheet.amounts, rows),
        counts=_sum_segments(sheet.counts, rows),
        own_ns=sheet.own_ns[rows],
        event=thread.event[rows],
        step=thread.step[rows],
        begin=thread.begin[rows],
        end=thread.end[rows],
        stall=_sum_segments(stall, rows),
        under=thread.under[rows] if len(thread.under) else thread.under,
    )


def _sum_segments(column: Int64, rows: Int64) -> Int64:
    """Sum what lies between each of some rows and the one before."""
    if not len(rows):
        return column[:0]
    begins = np.concatenate(([0], rows[:-1] + 1))
    return np.add.reduceat(column[: rows[-1] + 1], begins, axis=0)
