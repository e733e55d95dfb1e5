"""A graph that is being changed: its columns as they will be, and what goes."""

from dataclasses import dataclass, replace

import numpy as np

from gapless.model.trace import Int8, Int32, Int64
from gapless.replay.nodes import Graph, Op, Thread, Work
from gapless.replay.simulate import filled
from gapless.replay.typical import Bool

_LAUNCHES = (Op.LAUNCH, Op.COPY)


@dataclass
class Sheet:
    """A thread that is being changed, anchor by anchor."""

    thread: Thread  # as it was
    ops: Int8
    args: Int32
    amounts: Int64
    counts: Int64
    own: Int64
    stays: Bool

    def launching(self) -> Int64:
        """Give the anchors that still launch an activity."""
        return np.flatnonzero(self.stays & np.isin(self.ops, _LAUNCHES))


@dataclass
class Draft:
    """A graph that is being changed."""

    graph: Graph  # as it was
    sheets: list[Sheet]
    stream: Int32
    duration: Int64
    lag: Int64
    gap: Int64
    late: Int64
    slot: Int64
    after: list[tuple[int, ...]]
    streams: list[tuple[int, int]]


def opened(graph: Graph) -> Draft:
    """Give a graph to be changed."""
    work, count = graph.work, len(graph.work.stream)
    return Draft(
        graph=graph,
        sheets=[
            Sheet(
                thread=one,
                ops=one.ops.copy(),
                args=one.args.copy(),
                amounts=one.amounts.copy(),
                counts=one.counts.copy(),
                own=one.own.copy(),
                stays=np.ones(len(one.ops), bool),
            )
            for one in graph.threads
        ],
        stream=work.stream.copy(),
        duration=work.duration.copy(),
        lag=work.lag.copy(),
        gap=work.gap.copy(),
        late=filled(work.late, count),
        slot=filled(work.slot, count, 1),
        after=list(work.after),
        streams=list(graph.streams),
    )


def finished(draft: Draft) -> Graph:
    """Give the graph as changed: what goes is gone, and what referred to it refers to what stays.

    What waited for an activity that is gone waits for the one before it on its stream.
    """
    before = draft.graph.work
    launched = [sheet.args[sheet.launching()] for sheet in draft.sheets]
    rows = np.unique(np.concatenate([np.empty(0, np.int32), *launched]))
    jobs: list[int] = rows.tolist()
    number = np.full(len(draft.stream), -1)
    number[rows] = np.arange(len(rows))
    number = _substitutes(draft, number)
    work = Work(
        stream=draft.stream[rows],
        duration=draft.duration[rows],
        lag=draft.lag[rows],
        gap=draft.gap[rows],
        after=tuple(_waits(draft.after[row], number) for row in jobs),
        leaf=before.leaf[rows],
        event=before.event[rows],
        late=draft.late[rows],
        slot=draft.slot[rows].astype(np.int8),
        hop=before.hop,
    )
    more = len(draft.streams) - len(draft.graph.streams)
    none = np.empty(0, np.int64)
    graph = draft.graph
    return replace(
        graph,
        threads=tuple(_thread(sheet, number) for sheet in draft.sheets),
        work=work,
        streams=tuple(draft.streams),
        capacity=(*graph.capacity, *(max(graph.capacity, default=1) for _ in range(more))),
        begun=np.concatenate((_eased(draft, work, graph.begun), np.full(more, -1))),
        heads=(
            *(_eased(draft, work, head) for head in graph.heads),
            *(none for _ in range(more)),
        )
        if graph.heads
        else (),
    )


def _eased(draft: Draft, work: Work, ends: Int64) -> Int64:
    """Give the ends of what was enqueued before the window: of work like that within it.

    A device that is behind begins a window with steps of work; changed kernels were there, too.
    """
    before, start = int(draft.graph.work.duration.sum()), draft.graph.start
    if not draft.graph.on_device or not before:
        return ends
    ratio = int(work.duration.sum()) / before
    after = start + np.rint((ends - start) * ratio).astype(np.int64)
    return np.where(ends > start, after, ends)


def _waits(others: tuple[int, ...], number: Int64) -> tuple[int, ...]:
    found = [int(number[other]) for other in others]
    return tuple(one for one in found if one >= 0)


def _substitutes(draft: Draft, number: Int64) -> Int64:
    """Let what is gone be stood for by what is before it on its stream; −1 where nothing is."""
    found = number.copy()
    for stream in np.unique(draft.stream).tolist():
        mine = np.flatnonzero(draft.stream == stream)
        known = np.where(number[mine] >= 0, np.arange(len(mine)), -1)
        last = np.maximum.accumulate(known)
        found[mine] = np.where(last >= 0, number[mine][np.maximum(last, 0)], -1)
    return found


def _thread(sheet: Sheet, number: Int64) -> Thread:
    """Give a thread without the anchors that go; what is left of their segments comes after."""
    rows = np.flatnonzero(sheet.stays)
    thread = sheet.thread
    ops, args = sheet.ops[rows], sheet.args[rows].copy()
    jobs = np.isin(ops, (*_LAUNCHES, Op.EVENT)) & (args >= 0)
    args[jobs] = number[args[jobs]]
    stall = filled(thread.stall, len(thread.ops))
    return replace(
        thread,
        ops=ops,
        args=args,
        amounts=_joined(sheet.amounts, rows),
        counts=_joined(sheet.counts, rows),
        own=sheet.own[rows],
        event=thread.event[rows],
        step=thread.step[rows],
        begin=thread.begin[rows],
        end=thread.end[rows],
        stall=_joined(stall, rows),
        under=thread.under[rows] if len(thread.under) else thread.under,
    )


def _joined(column: Int64, rows: Int64) -> Int64:
    """Sum what lies before each of some rows, behind the one before."""
    if not len(rows):
        return column[:0]
    begins = np.concatenate(([0], rows[:-1] + 1))
    return np.add.reduceat(column[: rows[-1] + 1], begins, axis=0)
