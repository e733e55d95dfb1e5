"""The one partition function, in its two orders: a host lane's and a device's.

Cut time at all boundaries of a set of intervals; each piece goes to the open interval with the
smallest key. On a host thread the key is (order of the tag; latest start; earliest end; position):
frames nest, so this is a walk down a forest. On a device it is (kind; earliest start; stream;
correlation; graph node): who came first keeps the device until it ends, so a running maximum of
ends gives the owners of a kind.
"""

import itertools
from heapq import heappop, heappush

import numpy as np

from gapless.accounting.ahead import ahead
from gapless.accounting.intervals import NO_LANE, Lane, concatenated, merge, subtract, union
from gapless.accounting.nesting import Forest, batches, forest, lane_of
from gapless.model.trace import Int8, Int64


def sweep_host(start: Int64, end: Int64, order: Int64 | Int8) -> Lane:
    """Give each instant to the open interval with the smallest (order; −start; end; position)."""
    swept = ahead(lambda rows: _sweep_batch(rows, start, end, order), batches(start, end))
    return concatenated(list(swept))


def _sweep_batch(rows: Int64, start: Int64, end: Int64, order: Int64 | Int8) -> Lane:
    tree = forest(start[rows], end[rows])
    if (tree.end != end[rows][tree.index]).any():
        return _with_crossings(rows, start, end, order)
    return renamed(lane_of(tree, _winners(tree, order[rows][tree.index])), rows)


def sweep_device(start: Int64, end: Int64, kind: Int64) -> Lane:
    """Give each instant to the open interval with the smallest key (kind; start; position).

    The intervals come sorted by (start, stream, correlation, graph node), so that position breaks
    ties.
    """
    lanes: list[Lane] = []
    taken = NO_LANE
    for one in np.unique(kind).tolist():
        rows = np.flatnonzero((kind == one) & (end > start))
        if not len(rows):
            continue
        s, e = start[rows], end[rows]
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(e)[:-1]))
        first = np.maximum(s, reach)
        owns = e > first
        own = subtract(Lane(first[owns], e[owns], rows[owns]), taken)
        lanes.append(own)
        everything = merge(lanes)
        taken = union(everything.start, everything.end)
    return merge(lanes) if lanes else NO_LANE


def sweep_slowly(start: Int64, end: Int64, key: list[tuple[int, ...]]) -> Lane:
    """Partition intervals by any keys, one boundary at a time: for the few that cross."""
    starts: list[int] = start.tolist()
    ends: list[int] = end.tolist()
    by_start: list[int] = np.argsort(start, kind="stable").tolist()
    todo = [i for i in by_start if ends[i] > starts[i]]
    heap: list[tuple[tuple[int, ...], int]] = []
    out: list[tuple[int, int, int]] = []
    now, at = 0, 0
    while at < len(todo) or heap:
        now = now if heap else starts[todo[at]]
        while at < len(todo) and starts[todo[at]] <= now:
            heappush(heap, (key[todo[at]], todo[at]))
            at += 1
        while heap and ends[heap[0][1]] <= now:
            heappop(heap)
        if not heap:
            continue
        owner = heap[0][1]
        stop = min(ends[owner], starts[todo[at]]) if at < len(todo) else ends[owner]
        if out and out[-1][2] == owner and out[-1][1] == now:
            out[-1] = (out[-1][0], stop, owner)
        else:
            out.append((now, stop, owner))
        now = stop
    columns = np.array(out, np.int64).reshape(-1, 3)
    return Lane(columns[:, 0], columns[:, 1], columns[:, 2])


def _winners(tree: Forest, order: Int64 | Int8) -> Int64:
    """Give what is charged while a frame is innermost: the smallest order on its stack."""
    wins = np.arange(len(order))
    by_depth = np.argsort(tree.depth, kind="stable")
    bounds = np.searchsorted(tree.depth[by_depth], np.arange(1, int(tree.depth.max(initial=0)) + 2))
    for lo, hi in itertools.pairwise(bounds):
        level = by_depth[lo:hi]
        above = wins[tree.parent[level]]
        wins[level] = np.where(order[level] <= order[above], level, above)
    return wins


def _with_crossings(keep: Int64, start: Int64, end: Int64, order: Int64 | Int8) -> Lane:
    """Sweep clusters in which frames cross slowly, by the definition, and the rest as a forest."""
    s, e = start[keep], end[keep]
    tree = forest(s, e)
    clusters = union(s, e)
    cluster = np.searchsorted(clusters.start, s, side="right") - 1
    bad = np.zeros(len(clusters), bool)
    bad[cluster[tree.index[tree.end != e[tree.index]]]] = True
    slow, fast = keep[bad[cluster]], keep[~bad[cluster]]
    key = [(int(order[i]), -int(start[i]), int(end[i]), int(i)) for i in slow]
    crossed = sweep_slowly(start[slow], end[slow], key)
    nested = sweep_host(start[fast], end[fast], order[fast])
    return merge([renamed(crossed, slow), renamed(nested, fast)])


def renamed(lane: Lane, names: Int64) -> Lane:
    """Give a lane whose owners are looked up in a column."""
    return Lane(lane.start, lane.end, names[lane.owner]) if len(lane) else NO_LANE
