"""Steps side by side: the same anchors in each, and what only one step had to bear.

Where the steps of a window go through the same anchors, the median of the time before each is what
it costs; a segment that took far longer once was held up (lessons of 49 traces: 5 to 15 % of host
time is such jitter). Such a *stall* stays as it is, whatever an edit does to the rest.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from gapless.model.leaf import LEAVES
from gapless.model.trace import Int64, Trace
from gapless.replay.nodes import Graph, Op, Thread

_LEAST: Final = 3  # steps that make a median
_LONG, _TIMES = 300_000, 5  # ns; a stall is longer, and so many times the median
_UNNAMED: Final = np.array([leaf.startswith("idle.host.") for leaf in LEAVES], bool)


def aligned(graph: Graph, trace: Trace) -> Graph:
    """Mark what held single segments up, by their places in the counted steps, else their kinds."""
    if len(graph.counted) < _LEAST:
        return graph
    threads, whole = list[Thread](), True
    for thread in graph.threads:
        what = _what(graph, thread, trace)
        places = _places(graph, thread, what)
        whole &= places is not None
        threads.append(_with_stalls(thread, _kinds(thread, what) if places is None else places))
    return replace(graph, threads=tuple(threads), aligned=whole)


def calm(graph: Graph) -> Graph:
    """Give a graph without its stalls: what a usual step costs, for ratios and α.

    A mean of three steps that one stall of 20 ms is part of says nothing of a hundred.
    """
    threads = (replace(one, stall=np.zeros_like(one.stall)) for one in graph.threads)
    return replace(graph, threads=tuple(threads))


def _places(graph: Graph, thread: Thread, what: Int64) -> list[Int64] | None:
    """Give the anchors of each place of the counted steps; ``None`` if steps are not alike."""
    steps = [np.flatnonzero(thread.step == step) for step in graph.counted]
    if len({len(rows) for rows in steps}) != 1:
        return None
    every = np.stack(steps)
    same = bool((what[every] == what[every][0]).all())
    return list(every.T) if same else None


def _kinds(thread: Thread, what: Int64) -> list[Int64]:
    """Give the anchors that are alike in what they are, and in what comes before them."""
    before = np.append(-1, what[:-1])
    order = np.lexsort((thread.step, before, what))
    new = (np.diff(what[order]) != 0) | (np.diff(before[order]) != 0)
    return np.split(order, np.flatnonzero(new) + 1)


def _what(graph: Graph, thread: Thread, trace: Trace) -> Int64:
    """Give what each anchor is: its kind, and the name of what it launches."""
    named = np.isin(thread.ops, (Op.LAUNCH, Op.COPY))
    if not len(graph.work.event):
        return thread.ops.astype(np.int64)
    jobs = graph.work.event[np.where(named, thread.args, 0)]
    names = np.where(named, trace.events.name[jobs].astype(np.int64), -1)
    return (names + 1) * len(Op) + thread.ops.astype(np.int64)


def _with_stalls(thread: Thread, places: list[Int64]) -> Thread:
    """Take what is far above the median of its place out of the unnamed time of segments."""
    amounts, own, stall = thread.amounts.copy(), thread.own.copy(), thread.stall.copy()
    for row, more in _above(amounts[:, _UNNAMED].sum(axis=1), thread, places):
        left = more
        for leaf in np.flatnonzero(_UNNAMED)[np.argsort(-amounts[row, _UNNAMED])].tolist():
            taken = min(left, int(amounts[row, leaf]))
            amounts[row, leaf] -= taken
            left -= taken
        stall[row] += more
    for row, more in _above(np.where(thread.ops == Op.LAUNCH, own, 0), thread, places):
        own[row] -= more
        stall[row] += more
    return replace(thread, amounts=amounts, own=own, stall=stall)


def _above(value: Int64, thread: Thread, places: list[Int64]) -> list[tuple[int, int]]:
    """Give the anchors whose value is far above the median of their place, and by how much.

    What most steps have is no stall, however long it is.
    """
    found = list[tuple[int, int]]()
    some = value > _LONG
    for rows in places:
        if not some[rows].any() or len(rows) < _LEAST:
            continue
        middle = int(np.sort(value[rows])[(len(rows) - 1) // 2])
        far = (value[rows] - middle > _LONG) & (value[rows] > _TIMES * middle)
        steps = thread.step[rows]
        if 2 * len(np.unique(steps[far])) < len(np.unique(steps)):
            found += [(row, int(value[row]) - middle) for row in rows[far].tolist()]
    return found
