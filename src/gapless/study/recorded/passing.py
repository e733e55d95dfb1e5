"""What it takes to hand batches over: of those that were there, and of those on their way."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.model.trace import Int64
from gapless.replay.service import TRANSIT
from gapless.study.recorded.edges import Bool
from gapless.study.recorded.turns import middle_of

_SOON_NS: Final = 1_000_000  # a batch whose fetch ended so long ago was there
_BLOCKED: Final = 5  # times what a hand-over takes: who waits so long waits for a worker


@dataclass(frozen=True)
class Handed:
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

    def take(self, rows: Int64) -> "Handed":
        """Select hand-overs."""
        return Handed(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True)
class Passed:
    """What hand-overs of batches took that were there, and how long others were on the way, ns."""

    hand: Int64
    transit: int | None  # None: none was seen on its way
    first: int  # how much longer the first batch of a process that was just started is


def passed(handed: Handed, steady: Int64, own: tuple[int, int], anew: int) -> Passed:
    """Measure hand-overs outside of windows, the rows of which are ``steady``.

    ``own``: what a batch is pinned in, and what handing one over takes at least. ``anew``: so many
    first batches of each iteration come from processes that were just started: those make their
    queue's thread and their first shared memory before they send one.
    """
    pinning, dispatch = own
    some, before = handed.take(steady), held(handed)[steady]
    known = some.ready >= 0
    there = known & (some.ready + 2 * pinning + _SOON_NS <= some.ask)
    there = there & ~before if (there & ~before).any() else there
    hand = (some.got - some.ask)[there]
    usual = middle_of(hand)
    least = pinning + (dispatch if usual is None else usual)
    late, new = known & (some.ready > some.ask), some.position < anew
    way = middle_of((some.got - some.ready)[late & ~new])
    began = middle_of((some.got - some.ready)[late & new])
    transit = None if way is None else max(0, way - least)
    first = 0
    if began is not None:
        first = max(0, began - least - (round(TRANSIT.mid) if transit is None else transit))
    return Passed(hand if len(hand) else np.array([dispatch]), transit, first)


def held(handed: Handed) -> Bool:
    """Tell which batches had been taken off the queue before: while one before them was waited for.

    They came while the training thread took all that arrived, and are handed over at once.
    """
    wait = handed.got - handed.ask
    lay = (handed.ready >= 0) & (handed.ready <= handed.ask)
    usual = middle_of(wait[lay]) or 0
    blocked = wait > _BLOCKED * max(usual, _SOON_NS)
    until = np.maximum.accumulate(np.where(blocked, handed.got - wait // 2, 0))
    return lay & (handed.ready < np.append(np.zeros(1, np.int64), until[:-1]))
