"""Half-open intervals in columns: lanes (disjoint, sorted), their joins, unions and measures.

Nothing here knows of traces. All functions are vectorised; a million intervals take tenths of a
second.
"""

from dataclasses import dataclass

import numpy as np

from gapless.model.trace import Int64


@dataclass(frozen=True)
class Lane:
    """Disjoint intervals in ascending order, each with an owner (an index, or −1)."""

    start: Int64
    end: Int64
    owner: Int64

    def __len__(self) -> int:
        """Count the pieces."""
        return len(self.start)


@dataclass(frozen=True)
class Cut:
    """Queries cut along a lane: each part's query, bounds and piece of the lane (−1: a hole)."""

    query: Int64
    start: Int64
    end: Int64
    piece: Int64


def empty() -> Int64:
    """Give a column of no rows."""
    return np.empty(0, np.int64)


NO_LANE = Lane(empty(), empty(), empty())


def cover(lane: Lane, lo: Int64, hi: Int64) -> Cut:
    """Cut each query ``[lo, hi)`` into a lane's pieces and the holes between, in order of time."""
    first = np.searchsorted(lane.end, lo, side="right")
    last = np.searchsorted(lane.start, hi, side="left")
    slots = 2 * np.maximum(last - first, 0) + 1  # hole, piece, hole, …, hole
    query = np.repeat(np.arange(len(lo)), slots)
    slot = np.arange(len(query)) - np.repeat(np.cumsum(slots) - slots, slots)
    if not len(lane):
        query = np.flatnonzero(lo < hi)
        return Cut(query, lo[query], hi[query], np.full(len(query), -1))
    index = first[query] + slot // 2
    inside = slot % 2 == 1
    before, after = np.clip(index - 1, 0, None), np.minimum(index, len(lane) - 1)
    hole_start = np.where(slot == 0, lo[query], lane.end[before])
    hole_end = np.where(slot == slots[query] - 1, hi[query], lane.start[after])
    start = np.maximum(np.where(inside, lane.start[after], hole_start), lo[query])
    end = np.minimum(np.where(inside, lane.end[after], hole_end), hi[query])
    keep = start < end
    piece = np.where(inside, after, -1)
    return Cut(query[keep], start[keep], end[keep], piece[keep])


def union(start: Int64, end: Int64) -> Lane:
    """Give the time that any interval covers, as maximal pieces owned by their first interval."""
    keep = np.flatnonzero(end > start)
    order = keep[np.argsort(start[keep], kind="stable")]
    if not len(order):
        return NO_LANE
    s, reach = start[order], np.maximum.accumulate(end[order])
    head = np.flatnonzero(np.concatenate(([True], s[1:] > reach[:-1])))
    tail = np.concatenate((head[1:], [len(s)])) - 1
    return Lane(s[head], reach[tail], order[head])


def subtract(lane: Lane, taken: Lane) -> Lane:
    """Give the parts of a lane that another leaves free."""
    if not len(taken):
        return lane
    cut = cover(taken, lane.start, lane.end)
    free = cut.piece < 0
    return Lane(cut.start[free], cut.end[free], lane.owner[cut.query[free]])


def merge(lanes: list[Lane]) -> Lane:
    """Put lanes that do not overlap into one."""
    start = np.concatenate([lane.start for lane in lanes])
    order = np.argsort(start, kind="stable")
    end = np.concatenate([lane.end for lane in lanes])
    owner = np.concatenate([lane.owner for lane in lanes])
    return Lane(start[order], end[order], owner[order])


def part(lane: Lane, first: int, last: int) -> Lane:
    """Give the pieces of a lane from one position to before another."""
    return Lane(lane.start[first:last], lane.end[first:last], lane.owner[first:last])


def concatenated(lanes: list[Lane]) -> Lane:
    """Put lanes that follow each other in time into one."""
    every = [NO_LANE, *lanes]
    return Lane(
        np.concatenate([lane.start for lane in every]),
        np.concatenate([lane.end for lane in every]),
        np.concatenate([lane.owner for lane in every]),
    )


def piece_at(lane: Lane, at: Int64) -> Int64:
    """Give the piece of a lane that is open at each instant, −1 where none is."""
    if not len(lane):
        return np.full(len(at), -1)
    piece = np.searchsorted(lane.start, at, side="right") - 1
    return np.where((piece >= 0) & (at < lane.end[piece]), piece, -1)


def covered(lane: Lane, at: Int64) -> Int64:
    """Measure how much of a lane lies before each instant, in ns."""
    if not len(lane):
        return np.zeros(len(at), np.int64)
    before = np.concatenate(([0], np.cumsum(lane.end - lane.start)))
    piece = np.searchsorted(lane.start, at, side="right") - 1
    inside = np.minimum(at, lane.end[piece]) - lane.start[piece]
    return np.where(piece >= 0, before[piece] + inside, 0)


def overlap(lane: Lane, lo: Int64, hi: Int64) -> Int64:
    """Measure how much of a lane lies within each ``[lo, hi)``, in ns."""
    return covered(lane, hi) - covered(lane, lo)
