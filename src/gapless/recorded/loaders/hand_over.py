"""What it takes to hand batches over: those that were ready, and those on their way."""

from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from gapless.model.trace import Int64
from gapless.recorded.loaders.iterations import median_of
from gapless.recorded.training.edges import Bool
from gapless.replay.loader.costs import TRANSIT

_READY_MARGIN_NS: Final = 1_000_000  # a batch whose fetch ended so long ago was ready
_BLOCKED_RATIO: Final = 5  # times what a hand-over takes: a longer wait is for a worker


class HandOvers(Struct, frozen=True):
    """Hand-overs of one loader, or of several alike, in order; −1: not known."""

    ask: Int64
    got: Int64
    position: Int64
    on: Int64
    queue: Int64
    off: Int64
    begun: Int64  # its fetch
    ready: Int64  # when that ended
    told: Int64  # when its worker was given the indices

    def take(self, rows: Int64) -> "HandOvers":
        """Select hand-overs."""
        return HandOvers(**{name: column[rows] for name, column in asdict(self).items()})


class HandOverCosts(Struct, frozen=True):
    """What hand-overs of ready batches took, and how long others were on the way, in ns."""

    hand: Int64
    transit: int | None  # None: none was seen on the way
    first_extra: int  # how much longer the first batch of a process that was just started is


def measure_hand_overs(
    hand_overs: HandOvers, steady: Int64, fixed_ns: tuple[int, int], n_fresh: int
) -> HandOverCosts:
    """Measure hand-overs outside of windows, in the ``steady`` rows.

    ``fixed_ns``: the time in which a batch is pinned, and the least that handing one over takes.
    ``n_fresh``: how many first batches of each iteration come from newly started processes: those
    create their queue's thread and their first shared memory before they send one.
    """
    pinning, dispatch = fixed_ns
    steady_rows, dequeued = hand_overs.take(steady), was_dequeued(hand_overs)[steady]
    is_known = steady_rows.ready >= 0
    is_ready = is_known & (steady_rows.ready + 2 * pinning + _READY_MARGIN_NS <= steady_rows.ask)
    is_ready = is_ready & ~dequeued if (is_ready & ~dequeued).any() else is_ready
    hand_ns = (steady_rows.got - steady_rows.ask)[is_ready]
    median_ns = median_of(hand_ns)
    min_ns = pinning + (dispatch if median_ns is None else median_ns)
    is_late, is_fresh = (
        is_known & (steady_rows.ready > steady_rows.ask),
        steady_rows.position < n_fresh,
    )
    late_ns = median_of((steady_rows.got - steady_rows.ready)[is_late & ~is_fresh])
    fresh_ns = median_of((steady_rows.got - steady_rows.ready)[is_late & is_fresh])
    transit = None if late_ns is None else max(0, late_ns - min_ns)
    first_extra = 0
    if fresh_ns is not None:
        first_extra = max(
            0, fresh_ns - min_ns - (round(TRANSIT.mid) if transit is None else transit)
        )
    return HandOverCosts(hand_ns if len(hand_ns) else np.array([dispatch]), transit, first_extra)


def was_dequeued(hand_overs: HandOvers) -> Bool:
    """Return which batches had left the queue before, while an earlier one was waited for.

    They came while the training thread took everything that arrived, and are handed over at
    once.
    """
    wait_ns = hand_overs.got - hand_overs.ask
    is_ready = (hand_overs.ready >= 0) & (hand_overs.ready <= hand_overs.ask)
    median_ns = median_of(wait_ns[is_ready]) or 0
    is_blocked = wait_ns > _BLOCKED_RATIO * max(median_ns, _READY_MARGIN_NS)
    blocked_until = np.maximum.accumulate(np.where(is_blocked, hand_overs.got - wait_ns // 2, 0))
    return is_ready & (hand_overs.ready < np.append(np.zeros(1, np.int64), blocked_until[:-1]))
