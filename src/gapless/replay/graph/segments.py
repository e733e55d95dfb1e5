"""What a thread does between its anchors, by leaf, and how many traced events that is."""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.device.idle import HOLDS
from gapless.accounting.host.tags import NOT_A_FRAME
from gapless.accounting.intervals import Lane, cover
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.graph.anchors import Anchors
from gapless.replay.graph.nodes import GraphThread, Op
from gapless.replay.graph.span import GraphSpan

_COUNT: Final = len(LEAVES)
_PYTHON_LEAF: Final = LEAF["idle.host.python"]


class ThreadStretches(Struct, frozen=True):
    """What a thread did, in stretches in order of time, each with its leaf."""

    start: Int64
    end: Int64
    leaf: Int64


def host_stretches(span: GraphSpan, track: int) -> ThreadStretches:
    """Return what a thread did, as the account charges it for idle devices."""
    lo, hi = np.array([span.start]), np.array([span.stop])
    charges = span.host.phi(np.array([track]), lo, hi)
    return ThreadStretches(charges.start, charges.end, charges.leaf)


def ledger_stretches(ledger: Ledger) -> ThreadStretches:
    """Return what the training thread of a run without devices did: its row is the account."""
    return ThreadStretches(ledger.start, ledger.end, ledger.leaf.astype(np.int64))


def build_thread(
    span: GraphSpan, track: int, anchors: Anchors, stretches: ThreadStretches
) -> GraphThread:
    """Merge all that a thread did into the segments before its anchors.

    What holds a thread inside a launch call (a collection, an allocation, the profiler) belongs to
    the segment, and not to the call.
    """
    since = np.append(span.start, anchors.end)[:-1]
    amounts = _sum_amounts(stretches, since, anchors.begin)
    held_ns = _sum_amounts(stretches, anchors.begin, anchors.end)
    held_ns[:, ~_hold_mask()] = 0
    is_launch = (anchors.op == Op.LAUNCH) & (anchors.own_ns > 0)
    held_ns[~is_launch] = 0
    is_over = held_ns.sum(axis=1) > anchors.own_ns
    held_ns[is_over] = 0
    return GraphThread(
        track=track,
        ops=anchors.op.astype(np.int8),
        args=anchors.arg.astype(np.int32),
        amounts=amounts + held_ns,
        counts=_count_events(span, track, anchors, since),
        own_ns=anchors.own_ns - held_ns.sum(axis=1),
        event=anchors.event.astype(np.int32),
        step=np.searchsorted(span.bounds[1:], anchors.begin).astype(np.int32),
        begin=anchors.begin,
        end=anchors.end,
        stall=np.zeros(len(anchors), np.int64),
        under=_leaves_at(stretches, anchors.begin).astype(np.int8),
    )


def _sum_amounts(stretches: ThreadStretches, lo: Int64, hi: Int64) -> Int64:
    """Sum what was done within each ``[lo, hi)``, by leaf."""
    rows = np.flatnonzero(hi > lo)
    cut = cover(Lane(lo[rows], hi[rows], rows), stretches.start, stretches.end)
    inside = cut.piece >= 0
    cell = rows[cut.piece[inside]] * _COUNT + stretches.leaf[cut.query[inside]]
    sums = np.zeros(len(lo) * _COUNT, np.int64)
    np.add.at(sums, cell, (cut.end - cut.start)[inside])
    amounts = sums.reshape(-1, _COUNT)
    amounts[:, _PYTHON_LEAF] += np.maximum(hi - lo, 0) - amounts.sum(
        axis=1
    )  # where nothing is known
    return amounts


def _hold_mask() -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = np.zeros(_COUNT, bool)
    mask[list(HOLDS)] = True
    return mask


def _count_events(span: GraphSpan, track: int, anchors: Anchors, since: Int64) -> Int64:
    """Count traced host events from the end of one anchor to that of the next; launches twice."""
    threads = span.joined_trace.threads
    frames = threads.frames_of(track)
    frames = frames[threads.tags.order[frames] != NOT_A_FRAME]
    starts = np.sort(threads.trace.events.start[frames])
    count = np.searchsorted(starts, anchors.end) - np.searchsorted(starts, since)
    is_call = np.isin(anchors.op, (Op.LAUNCH, Op.COPY)) & (anchors.end > anchors.begin)
    return np.where(anchors.op == Op.WAIT, 0, count) + is_call


def _leaves_at(stretches: ThreadStretches, instants: Int64) -> Int64:
    """Return the leaf of each instant."""
    if not len(stretches.start):
        return np.full(len(instants), _PYTHON_LEAF)
    piece = np.maximum(np.searchsorted(stretches.start, instants, side="right") - 1, 0)
    return stretches.leaf[piece]
