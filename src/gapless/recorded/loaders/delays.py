"""Facets of waits for data: an earlier batch in the way, a later one ready (docs: the account)."""

import numpy as np
from msgspec import Struct

from gapless.accounting.intervals import empty_column, overlap, union
from gapless.model.trace import Int64
from gapless.recorded.loaders.fetches import Fetches

_NEVER_NS = np.iinfo(np.int64).max


class Delays(Struct, frozen=True):
    """The waits for workers' batches whose fetch is known: in ns, a row each."""

    wait: Int64  # its length
    queueing: Int64  # of that: the worker was at an earlier batch
    blocked: Int64  # of that: a later batch of the iteration was complete, this one was not ("hol")


NO_DELAYS = Delays(empty_column(), empty_column(), empty_column())


def measure_delays(ask_ns: Int64, got_ns: Int64, fetch: Int64, fetches: Fetches) -> Delays:
    """Measure the facets of waits, by start; ``fetch`` is that of each, −1 where it is not known.

    Batches of another iteration do not count as later ones: they are complete after its waits.
    """
    has_worker = fetch >= 0
    has_worker[has_worker] = fetches.worker[fetch[has_worker]] >= 0
    if not has_worker.any():
        return NO_DELAYS
    done_ns = np.where(has_worker, fetches.end[fetch], _NEVER_NS)
    next_done_ns = np.append(np.minimum.accumulate(done_ns[:0:-1])[::-1], _NEVER_NS)
    ready_ns = np.clip(done_ns, ask_ns, got_ns)
    blocked_ns = np.maximum(0, ready_ns - np.maximum(ask_ns, next_done_ns))
    rows = np.flatnonzero(has_worker)
    begin_ns = np.clip(fetches.start[fetch[rows]], ask_ns[rows], got_ns[rows])
    return Delays(
        wait=(got_ns - ask_ns)[rows],
        queueing=_busy_ns(fetches, fetches.worker[fetch[rows]], ask_ns[rows], begin_ns),
        blocked=blocked_ns[rows],
    )


def _busy_ns(fetches: Fetches, slot: Int64, lo: Int64, hi: Int64) -> Int64:
    """Measure how long the worker of each stretch fetched in it."""
    busy_ns = np.zeros(len(slot), np.int64)
    for worker in np.unique(slot).tolist():
        rows, is_worker = np.flatnonzero(slot == worker), fetches.worker == worker
        lane = union(fetches.start[is_worker], fetches.end[is_worker])
        busy_ns[rows] = overlap(lane, lo[rows], hi[rows])
    return busy_ns
