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

from gapless.accounting.ahead import map_ahead
from gapless.accounting.host.nesting import Forest, build_forest, lane_of, split_batches
from gapless.accounting.intervals import NO_LANE, Lane, concatenate_lanes, merge, subtract, union
from gapless.model.trace import Int8, Int64


def sweep_host(start: Int64, end: Int64, order: Int64 | Int8) -> Lane:
    """Assign each instant to the open interval with the smallest (order; −start; end; position)."""
    lanes = map_ahead(lambda rows: _sweep_batch(rows, start, end, order), split_batches(start, end))
    return concatenate_lanes(list(lanes))


def _sweep_batch(rows: Int64, start: Int64, end: Int64, order: Int64 | Int8) -> Lane:
    tree = build_forest(start[rows], end[rows])
    if (tree.end != end[rows][tree.index]).any():
        return _sweep_crossings(rows, start, end, order)
    return map_owners(lane_of(tree, _find_winners(tree, order[rows][tree.index])), rows)


def sweep_device(start: Int64, end: Int64, kind: Int64) -> Lane:
    """Assign each instant to the open interval with the smallest key (kind; start; position).

    The intervals come sorted by (start, stream, correlation, graph node), so that position breaks
    ties.
    """
    lanes: list[Lane] = []
    occupied = NO_LANE
    for kind_code in np.unique(kind).tolist():
        rows = np.flatnonzero((kind == kind_code) & (end > start))
        if not len(rows):
            continue
        s, e = start[rows], end[rows]
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(e)[:-1]))
        begins = np.maximum(s, reach)
        is_owner = e > begins
        free_lane = subtract(Lane(begins[is_owner], e[is_owner], rows[is_owner]), occupied)
        lanes.append(free_lane)
        merged = merge(lanes)
        occupied = union(merged.start, merged.end)
    return merge(lanes) if lanes else NO_LANE


def sweep_slowly(start: Int64, end: Int64, key: list[tuple[int, ...]]) -> Lane:
    """Partition intervals by any keys, one boundary at a time: for the few that cross."""
    starts: list[int] = start.tolist()
    ends: list[int] = end.tolist()
    by_start: list[int] = np.argsort(start, kind="stable").tolist()
    pending = [i for i in by_start if ends[i] > starts[i]]
    heap: list[tuple[tuple[int, ...], int]] = []
    pieces: list[tuple[int, int, int]] = []
    now, position = 0, 0
    while position < len(pending) or heap:
        now = now if heap else starts[pending[position]]
        while position < len(pending) and starts[pending[position]] <= now:
            heappush(heap, (key[pending[position]], pending[position]))
            position += 1
        while heap and ends[heap[0][1]] <= now:
            heappop(heap)
        if not heap:
            continue
        owner = heap[0][1]
        stop = (
            min(ends[owner], starts[pending[position]]) if position < len(pending) else ends[owner]
        )
        if pieces and pieces[-1][2] == owner and pieces[-1][1] == now:
            pieces[-1] = (pieces[-1][0], stop, owner)
        else:
            pieces.append((now, stop, owner))
        now = stop
    columns = np.array(pieces, np.int64).reshape(-1, 3)
    return Lane(columns[:, 0], columns[:, 1], columns[:, 2])


def _find_winners(tree: Forest, order: Int64 | Int8) -> Int64:
    """Return what is charged while a frame is innermost: the smallest order on its stack."""
    winners = np.arange(len(order))
    by_depth = np.argsort(tree.depth, kind="stable")
    bounds = np.searchsorted(tree.depth[by_depth], np.arange(1, int(tree.depth.max(initial=0)) + 2))
    for lo, hi in itertools.pairwise(bounds):
        level = by_depth[lo:hi]
        above = winners[tree.parent[level]]
        winners[level] = np.where(order[level] <= order[above], level, above)
    return winners


def _sweep_crossings(keep: Int64, start: Int64, end: Int64, order: Int64 | Int8) -> Lane:
    """Sweep clusters in which frames cross slowly, by the definition, and the rest as a forest."""
    s, e = start[keep], end[keep]
    tree = build_forest(s, e)
    clusters = union(s, e)
    cluster = np.searchsorted(clusters.start, s, side="right") - 1
    is_crossed = np.zeros(len(clusters), bool)
    is_crossed[cluster[tree.index[tree.end != e[tree.index]]]] = True
    slow_rows, fast_rows = keep[is_crossed[cluster]], keep[~is_crossed[cluster]]
    key = [(int(order[i]), -int(start[i]), int(end[i]), int(i)) for i in slow_rows]
    crossing_lane = sweep_slowly(start[slow_rows], end[slow_rows], key)
    nested_lane = sweep_host(start[fast_rows], end[fast_rows], order[fast_rows])
    return merge([map_owners(crossing_lane, slow_rows), map_owners(nested_lane, fast_rows)])


def map_owners(lane: Lane, owners: Int64) -> Lane:
    """Return a lane whose owners are looked up in a column."""
    return Lane(lane.start, lane.end, owners[lane.owner]) if len(lane) else NO_LANE
