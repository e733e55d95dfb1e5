"""Facets of waits for data: an earlier batch in the way, a later one ready (docs: the account)."""

from dataclasses import dataclass

import numpy as np

from gapless.accounting.intervals import empty, overlap, union
from gapless.model.trace import Int64
from gapless.study.recorded.fetches import Fetches

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Delays:
    """Of the waits for what workers fetch, those whose fetch is known: in ns, a row each."""

    wait: Int64  # how long it was
    queueing: Int64  # of that: the worker was at an earlier batch
    blocked: Int64  # of that: a later batch of the iteration was complete, this one was not ("hol")


NO_DELAYS = Delays(empty(), empty(), empty())


def delays(ask: Int64, got: Int64, fetch: Int64, found: Fetches) -> Delays:
    """Measure the facets of waits, by start; ``fetch`` is that of each, −1 where it is not known.

    Batches of another iteration are no later ones of this: they are complete after its waits.
    """
    known = fetch >= 0
    known[known] = found.worker[fetch[known]] >= 0
    if not known.any():
        return NO_DELAYS
    done = np.where(known, found.end[fetch], _NEVER)
    later = np.append(np.minimum.accumulate(done[:0:-1])[::-1], _NEVER)
    ready = np.clip(done, ask, got)
    blocked = np.maximum(0, ready - np.maximum(ask, later))
    mine = np.flatnonzero(known)
    begun = np.clip(found.start[fetch[mine]], ask[mine], got[mine])
    return Delays(
        wait=(got - ask)[mine],
        queueing=_busy(found, found.worker[fetch[mine]], ask[mine], begun),
        blocked=blocked[mine],
    )


def _busy(found: Fetches, slot: Int64, lo: Int64, hi: Int64) -> Int64:
    """Measure how long the worker of each stretch fetched in it."""
    spent = np.zeros(len(slot), np.int64)
    for one in np.unique(slot).tolist():
        rows, runs = np.flatnonzero(slot == one), found.worker == one
        lane = union(found.start[runs], found.end[runs])
        spent[rows] = overlap(lane, lo[rows], hi[rows])
    return spent
