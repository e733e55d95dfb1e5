"""Nested intervals of one track: who encloses whom, and who is innermost at an instant.

Frames of a thread form a forest. Sorted outermost first, the depth of an interval is its rank less
the number of intervals that have ended, and its parent is the last one before it that is one less
deep: two sorts instead of a stack, so that millions of frames take a second. Where intervals cross
(damaged records), the earlier one counts as cut where the later begins, as long as the later is
open: the latest start is the innermost.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from gapless.accounting.ahead import map_ahead
from gapless.accounting.intervals import NO_LANE, Lane, concatenate_lanes, piece_at
from gapless.model.trace import Int64

_BATCH = 1 << 17  # intervals nested at once: some ten megabytes of working memory


class Forest(Struct, frozen=True):
    """Intervals sorted outermost first, with depth and parent as positions in that order."""

    index: Int64  # position in the order → the caller's interval
    start: Int64
    end: Int64
    depth: Int64
    parent: Int64  # position, −1 for a root


def split_batches(start: Int64, end: Int64) -> Iterator[Int64]:
    """Yield intervals in batches, in order of time, such that none touches one of another batch.

    What is nested in memory at once is then a batch, and not a trace. Points are left out.
    """
    keep = np.flatnonzero(end > start)
    order = keep[np.argsort(start[keep], kind="stable")]
    del keep
    reach = np.maximum.accumulate(end[order])
    splits = np.flatnonzero(start[order][1:] >= reach[:-1]) + 1
    del reach
    begin = 0
    while begin < len(order):
        position = np.searchsorted(splits, begin + _BATCH)
        stop = int(splits[position]) if position < len(splits) else len(order)
        yield order[begin:stop]
        begin = stop


def innermost_lane(start: Int64, end: Int64) -> Lane:
    """Assign each instant to the innermost interval that is open."""

    def nest(rows: Int64) -> Lane:
        lane = lane_of(build_forest(start[rows], end[rows]))
        return Lane(lane.start, lane.end, rows[lane.owner])

    return concatenate_lanes(list(map_ahead(nest, split_batches(start, end))))


def build_forest(start: Int64, end: Int64) -> Forest:
    """Nest intervals that may cross: see the head of this module. Points are left out."""
    keep = np.flatnonzero(end > start)
    order = keep[np.lexsort((-keep, -end[keep], start[keep]))]
    s, e = start[order], end[order]
    parent, depth = _find_parents(s, e)
    if not _is_nested(e, parent):
        e = _uncross(s, e)
        parent, depth = _find_parents(s, e)
    return Forest(order, s, e, depth, parent)


def find_parents(start: Int64, end: Int64) -> Int64:
    """Return the innermost interval that encloses each, −1 where none does and for points."""
    tree = build_forest(start, end)
    enclosing = np.full(len(start), -1)
    has_parent = tree.parent >= 0
    enclosing[tree.index[has_parent]] = tree.index[tree.parent[has_parent]]
    return enclosing


def find_innermost(start: Int64, end: Int64, instants: Int64) -> Int64:
    """Return the innermost interval that is open at each instant, −1 where none is."""
    lane = innermost_lane(start, end)
    piece = piece_at(lane, instants)
    return np.where(piece >= 0, lane.owner[piece], -1) if len(lane) else piece


def lane_of(tree: Forest, winner: Int64 | None = None) -> Lane:
    """Cut time at all boundaries; each piece goes to the winner of its innermost interval.

    ``winner`` gives for each position the position that is charged while it is innermost (itself by
    default).
    """
    count = len(tree.index)
    if not count:
        return NO_LANE
    winners = np.arange(count) if winner is None else winner
    # by end; the inner ones first
    closing = (count - 1) - np.argsort(tree.end[::-1], kind="stable")
    ends = tree.end[closing]
    at_open = np.arange(count) + np.searchsorted(ends, tree.start, side="right")
    at_close = np.arange(count) + np.searchsorted(tree.start, ends, side="left")
    time, state = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
    time[at_open], state[at_open] = tree.start, winners
    above = tree.parent[closing]
    time[at_close], state[at_close] = ends, np.where(above >= 0, winners[above], -1)
    # what holds after an instant
    last_rows = np.flatnonzero(np.concatenate((time[1:] > time[:-1], [True])))
    time, state = time[last_rows], state[last_rows]
    changes = np.flatnonzero(np.concatenate(([True], state[1:] != state[:-1])))
    time, state = time[changes], state[changes]
    owned_rows = np.flatnonzero(state[:-1] >= 0)
    return Lane(time[owned_rows], time[owned_rows + 1], tree.index[state[owned_rows]])


def _find_parents(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Return parent and depth of intervals sorted outermost first; right wherever they nest."""
    count = len(start)
    positions = np.arange(count)
    depth = positions - np.searchsorted(np.sort(end), start, side="right")
    stride = max(count, 1)
    key = np.sort(depth * stride + positions)
    key_rows = np.searchsorted(key, (depth - 1) * stride + positions) - 1
    parent = np.where(depth > 0, key[key_rows] % stride, -1) if count else positions
    return parent, depth


def _is_nested(end: Int64, parent: Int64) -> bool:
    return bool(np.all((parent < 0) | (end <= end[parent])))


def _uncross(start: Int64, end: Int64) -> Int64:
    """Cut what a later interval crosses where that begins: the innermost stays the same."""
    starts, ends = start.tolist(), end.tolist()
    stack: list[int] = []
    for index, begin in enumerate(starts):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        while stack and ends[stack[-1]] < ends[index]:
            ends[stack.pop()] = begin
        stack.append(index)
    return np.array(ends, np.int64)
