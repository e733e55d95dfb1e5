"""Half-open intervals in columns: lanes (disjoint, sorted), their joins, unions and measures.

Nothing here knows of traces. All functions are vectorised; a million intervals take tenths of a
second.
"""

import numpy as np
from msgspec import Struct

from gapless.model.trace import Int64


class Lane(Struct, frozen=True):
    """Disjoint intervals in ascending order, each with an owner (an index, or −1)."""

    start: Int64
    end: Int64
    owner: Int64

    def __len__(self) -> int:
        """Count the pieces."""
        return len(self.start)


class Cut(Struct, frozen=True):
    """Queries cut along a lane: each part's query, bounds and piece of the lane (−1: a hole)."""

    query: Int64
    start: Int64
    end: Int64
    piece: Int64


def empty_column() -> Int64:
    """Return a column of no rows."""
    return np.empty(0, np.int64)


NO_LANE = Lane(empty_column(), empty_column(), empty_column())


def cover(lane: Lane, lo: Int64, hi: Int64) -> Cut:
    """Cut each query ``[lo, hi)`` into a lane's pieces and the holes between, in order of time."""
    if not len(lane) or not len(lo):
        query = np.flatnonzero(lo < hi)
        return Cut(query, lo[query], hi[query], np.full(len(query), -1))
    first_piece = np.searchsorted(lane.end, lo, side="right")
    n_met = np.maximum(np.searchsorted(lane.start, hi, side="left") - first_piece, 0)
    # What a query meets has edges: its own start, those of the pieces, its own end.
    count = 2 * n_met + 2
    tail = np.cumsum(count) - 1
    head = tail - count + 1
    query = np.repeat(np.arange(len(lo)), count)
    # among all edges of the lane
    edge_index = np.arange(len(query)) - (head + 1 - 2 * first_piece)[query]
    edge = _look_up_edges(lane, edge_index)
    edge[head], edge[tail] = lo, hi
    np.clip(edge, lo[query], hi[query], out=edge)
    keep = edge[:-1] < edge[1:]
    keep[tail[:-1]] = False
    rows = np.flatnonzero(keep)
    kept_edges = edge_index[rows]
    return Cut(
        query[rows], edge[rows], edge[rows + 1], np.where(kept_edges & 1, -1, kept_edges >> 1)
    )


def _look_up_edges(lane: Lane, edge_index: Int64) -> Int64:
    """Look up edges of a lane by position: start and end of its first piece, start of the next."""
    piece = np.clip(edge_index >> 1, 0, len(lane) - 1)
    return np.where(edge_index & 1, lane.end[piece], lane.start[piece])


def union(start: Int64, end: Int64) -> Lane:
    """Return the time that any interval covers, as maximal pieces owned by their first interval."""
    keep = np.flatnonzero(end > start)
    order = keep[np.argsort(start[keep], kind="stable")]
    if not len(order):
        return NO_LANE
    s, reach = start[order], np.maximum.accumulate(end[order])
    head = np.flatnonzero(np.concatenate(([True], s[1:] > reach[:-1])))
    tail = np.concatenate((head[1:], [len(s)])) - 1
    return Lane(s[head], reach[tail], order[head])


def subtract(lane: Lane, removed: Lane) -> Lane:
    """Return the parts of a lane that another leaves free."""
    first_piece = np.searchsorted(removed.end, lane.start, side="right")
    is_touched = np.searchsorted(removed.start, lane.end, side="left") > first_piece
    del first_piece
    if not is_touched.any():
        return lane
    # few are cut, as a rule
    rows, untouched = (np.flatnonzero(is_touched), np.flatnonzero(~is_touched))
    cut = cover(removed, lane.start[rows], lane.end[rows])
    is_free = cut.piece < 0
    remainder = Lane(cut.start[is_free], cut.end[is_free], lane.owner[rows[cut.query[is_free]]])
    return merge(
        [Lane(lane.start[untouched], lane.end[untouched], lane.owner[untouched]), remainder]
    )


def merge(lanes: list[Lane]) -> Lane:
    """Put lanes that do not overlap into one."""
    start = np.concatenate([lane.start for lane in lanes])
    order = np.argsort(start, kind="stable")
    end = np.concatenate([lane.end for lane in lanes])
    owner = np.concatenate([lane.owner for lane in lanes])
    return Lane(start[order], end[order], owner[order])


def slice_lane(lane: Lane, begin: int, stop: int) -> Lane:
    """Return the pieces of a lane from one position to before another."""
    return Lane(lane.start[begin:stop], lane.end[begin:stop], lane.owner[begin:stop])


def concatenate_lanes(lanes: list[Lane]) -> Lane:
    """Put lanes that follow each other in time into one."""
    all_lanes = [NO_LANE, *lanes]
    return Lane(
        np.concatenate([lane.start for lane in all_lanes]),
        np.concatenate([lane.end for lane in all_lanes]),
        np.concatenate([lane.owner for lane in all_lanes]),
    )


def piece_at(lane: Lane, instants: Int64) -> Int64:
    """Return the piece of a lane that is open at each instant, −1 where none is."""
    if not len(lane):
        return np.full(len(instants), -1)
    piece = np.searchsorted(lane.start, instants, side="right") - 1
    return np.where((piece >= 0) & (instants < lane.end[piece]), piece, -1)


def measure_before(lane: Lane, instants: Int64) -> Int64:
    """Measure how much of a lane lies before each instant, in ns."""
    if not len(lane):
        return np.zeros(len(instants), np.int64)
    before = np.concatenate(([0], np.cumsum(lane.end - lane.start)))
    piece = np.searchsorted(lane.start, instants, side="right") - 1
    inside = np.minimum(instants, lane.end[piece]) - lane.start[piece]
    return np.where(piece >= 0, before[piece] + inside, 0)


def overlap(lane: Lane, lo: Int64, hi: Int64) -> Int64:
    """Measure how much of a lane lies within each ``[lo, hi)``, in ns."""
    return measure_before(lane, hi) - measure_before(lane, lo)
