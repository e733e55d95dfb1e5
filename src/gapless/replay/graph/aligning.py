"""Steps side by side: the same anchors in each, and what held up single steps.

Where the steps of a window go through the same anchors, the median of the time before each is what
it costs; a segment that took far longer once was held up (in 49 traces 5 to 15 % of host time was
such jitter). Such a *stall* stays as it is, whatever an edit does to the rest.
"""

from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.model.leaf import LEAVES
from gapless.model.trace import Int64, Trace
from gapless.replay.graph.nodes import Graph, GraphThread, Op

_MIN_STEPS: Final = 3  # steps needed for a median
_MIN_STALL_NS, _MIN_STALL_RATIO = 300_000, 5  # ns; a stall is longer, and so many times the median
_UNNAMED: Final = np.array([leaf.startswith("idle.host.") for leaf in LEAVES], bool)


def align_steps(graph: Graph, trace: Trace) -> Graph:
    """Mark what held up single segments, by their position in the counted steps, else by kind."""
    if len(graph.counted_steps) < _MIN_STEPS:
        return graph
    threads, is_aligned = list[GraphThread](), True
    for thread in graph.threads:
        kinds = _anchor_kinds(graph, thread, trace)
        groups = _rows_by_position(graph, thread, kinds)
        is_aligned &= groups is not None
        threads.append(
            _extract_stalls(thread, _rows_by_kind(thread, kinds) if groups is None else groups)
        )
    return replace(graph, threads=tuple(threads), is_aligned=is_aligned)


def remove_stalls(graph: Graph) -> Graph:
    """Return a graph without its stalls: what a usual step costs, for ratios and α.

    A mean of three steps, one of them with a stall of 20 ms, does not stand for a hundred.
    """
    threads = (replace(thread, stall=np.zeros_like(thread.stall)) for thread in graph.threads)
    return replace(graph, threads=tuple(threads))


def _rows_by_position(graph: Graph, thread: GraphThread, kinds: Int64) -> list[Int64] | None:
    """Return the anchors of each position in the counted steps; ``None`` if steps are not alike."""
    steps = [np.flatnonzero(thread.step == step) for step in graph.counted_steps]
    if len({len(rows) for rows in steps}) != 1:
        return None
    rows_by_step = np.stack(steps)
    is_same = bool((kinds[rows_by_step] == kinds[rows_by_step][0]).all())
    return list(rows_by_step.T) if is_same else None


def _rows_by_kind(thread: GraphThread, kinds: Int64) -> list[Int64]:
    """Return the anchors that are alike in their kind, and in what comes before them."""
    before = np.append(-1, kinds[:-1])
    order = np.lexsort((thread.step, before, kinds))
    is_new = (np.diff(kinds[order]) != 0) | (np.diff(before[order]) != 0)
    return np.split(order, np.flatnonzero(is_new) + 1)


def _anchor_kinds(graph: Graph, thread: GraphThread, trace: Trace) -> Int64:
    """Return the kind of each anchor, and the name of what it launches."""
    is_launch = np.isin(thread.ops, (Op.LAUNCH, Op.COPY))
    if not len(graph.work.event):
        return thread.ops.astype(np.int64)
    jobs = graph.work.event[np.where(is_launch, thread.args, 0)]
    names = np.where(is_launch, trace.events.name[jobs].astype(np.int64), -1)
    return (names + 1) * len(Op) + thread.ops.astype(np.int64)


def _extract_stalls(thread: GraphThread, groups: list[Int64]) -> GraphThread:
    """Take what is far above the median of its position out of the unnamed time of segments."""
    amounts, own_ns, stall = thread.amounts.copy(), thread.own_ns.copy(), thread.stall.copy()
    for row, excess in _find_outliers(amounts[:, _UNNAMED].sum(axis=1), thread, groups):
        remaining = excess
        for leaf in np.flatnonzero(_UNNAMED)[np.argsort(-amounts[row, _UNNAMED])].tolist():
            moved = min(remaining, int(amounts[row, leaf]))
            amounts[row, leaf] -= moved
            remaining -= moved
        stall[row] += excess
    for row, excess in _find_outliers(np.where(thread.ops == Op.LAUNCH, own_ns, 0), thread, groups):
        own_ns[row] -= excess
        stall[row] += excess
    return replace(thread, amounts=amounts, own_ns=own_ns, stall=stall)


def _find_outliers(
    values: Int64, thread: GraphThread, groups: list[Int64]
) -> list[tuple[int, int]]:
    """Return the anchors whose value is far above the median of their position, and by how much.

    What most steps have is not a stall, however long it is.
    """
    outliers = list[tuple[int, int]]()
    is_long = values > _MIN_STALL_NS
    for rows in groups:
        if not is_long[rows].any() or len(rows) < _MIN_STEPS:
            continue
        median = int(np.sort(values[rows])[(len(rows) - 1) // 2])
        is_far = (values[rows] - median > _MIN_STALL_NS) & (
            values[rows] > _MIN_STALL_RATIO * median
        )
        steps = thread.step[rows]
        if 2 * len(np.unique(steps[is_far])) < len(np.unique(steps)):
            outliers += [(row, int(values[row]) - median) for row in rows[is_far].tolist()]
    return outliers
