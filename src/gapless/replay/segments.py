"""What a thread does between its anchors, by leaf, and how many traced events that is."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.accounting.idle import HOLDS
from gapless.accounting.intervals import Lane, cover
from gapless.accounting.tags import NOT_A_FRAME
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.anchors import Anchors
from gapless.replay.nodes import Op, Thread
from gapless.replay.span import Span

_COUNT: Final = len(LEAVES)
_OTHER: Final = LEAF["idle.host.python"]


@dataclass(frozen=True)
class Doing:
    """What a thread did, in stretches in order of time, each with its leaf."""

    start: Int64
    end: Int64
    leaf: Int64


def of_host(span: Span, track: int) -> Doing:
    """Give what a thread did, as the account charges idle devices with it."""
    lo, hi = np.array([span.start]), np.array([span.stop])
    said = span.host.phi(np.array([track]), lo, hi)
    return Doing(said.start, said.end, said.leaf)


def of_ledger(ledger: Ledger) -> Doing:
    """Give what the training thread of a run without devices did: its row is the account."""
    return Doing(ledger.start, ledger.end, ledger.leaf.astype(np.int64))


def thread(span: Span, track: int, mine: Anchors, doing: Doing) -> Thread:
    """Merge all that a thread did into the segments before its anchors.

    What holds a thread inside a launch call (a collection, an allocation, the profiler) belongs to
    the segment, and not to the call.
    """
    since = np.append(span.start, mine.end)[:-1]
    amounts = _amounts(doing, since, mine.begin)
    held = _amounts(doing, mine.begin, mine.end)
    held[:, ~_holds()] = 0
    launched = (mine.op == Op.LAUNCH) & (mine.own > 0)
    held[~launched] = 0
    over = held.sum(axis=1) > mine.own
    held[over] = 0
    return Thread(
        track=track,
        ops=mine.op.astype(np.int8),
        args=mine.arg.astype(np.int32),
        amounts=amounts + held,
        counts=_counts(span, track, mine, since),
        own=mine.own - held.sum(axis=1),
        event=mine.event.astype(np.int32),
        step=np.searchsorted(span.bounds[1:], mine.begin).astype(np.int32),
        begin=mine.begin,
        end=mine.end,
        stall=np.zeros(len(mine), np.int64),
        under=_at(doing, mine.begin).astype(np.int8),
    )


def _amounts(doing: Doing, lo: Int64, hi: Int64) -> Int64:
    """Sum what was done within each ``[lo, hi)``, by leaf."""
    rows = np.flatnonzero(hi > lo)
    cut = cover(Lane(lo[rows], hi[rows], rows), doing.start, doing.end)
    inside = cut.piece >= 0
    cell = rows[cut.piece[inside]] * _COUNT + doing.leaf[cut.query[inside]]
    found = np.zeros(len(lo) * _COUNT, np.int64)
    np.add.at(found, cell, (cut.end - cut.start)[inside])
    amounts = found.reshape(-1, _COUNT)
    amounts[:, _OTHER] += np.maximum(hi - lo, 0) - amounts.sum(axis=1)  # where nothing is told
    return amounts


def _holds() -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(_COUNT, bool)
    found[list(HOLDS)] = True
    return found


def _counts(span: Span, track: int, mine: Anchors, since: Int64) -> Int64:
    """Count traced host events from the end of one anchor to that of the next; launches twice."""
    threads = span.joined.threads
    frames = threads.of(track)
    frames = frames[threads.tags.order[frames] != NOT_A_FRAME]
    starts = np.sort(threads.trace.events.start[frames])
    count = np.searchsorted(starts, mine.end) - np.searchsorted(starts, since)
    called = np.isin(mine.op, (Op.LAUNCH, Op.COPY)) & (mine.end > mine.begin)
    return np.where(mine.op == Op.WAIT, 0, count) + called


def _at(doing: Doing, at: Int64) -> Int64:
    """Give the leaf of each instant."""
    if not len(doing.start):
        return np.full(len(at), _OTHER)
    piece = np.maximum(np.searchsorted(doing.start, at, side="right") - 1, 0)
    return doing.leaf[piece]
