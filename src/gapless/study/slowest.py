"""How long the step of several ranks is: as long as the longest of one step of each, on average.

Steps of different ranks are drawn independently of one another, changed and unchanged alike, so
that what ranks wait for one another by chance stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import Final

import numpy as np

from gapless.catalogue.ranked import Float, Rank
from gapless.model.interval import Interval

_EVENED: Final = 0.85  # of a surplus, at the least: profilers may have made it larger
_ROUNDS: Final = 200
_FEWEST_ROUNDS: Final = 40
_RANKS: Final = 8  # of so many and fewer all rounds are drawn: of more, the longest varies less
_ENDS: Final = (0.05, 0.95)
_EXACT: Final = 12  # places: what changes nothing is no change by rounding either
_LEFT: Final = 0.02  # of a step stays at least


@dataclass(frozen=True)
class Played:
    """Steps of each rank, in shares of the mean step: what it does by itself, what it waits."""

    own: tuple[Float, ...]
    waits: tuple[Float, ...]
    evens: float

    @classmethod
    def of(cls, ranks: Sequence[Rank], evens: float) -> "Played":
        """Give the steps that windows saw.

        ``evens``: of what the slowest does more than the next, so much goes (0: nothing).
        """
        mean = float(np.concatenate([one.lengths for one in ranks]).mean())
        own, waits = [one.own / mean for one in ranks], [one.waits / mean for one in ranks]
        return cls(tuple(own), tuple(waits), evens)

    def redrawn(self, draw: np.random.Generator) -> "Played":
        """Draw each rank's steps anew (bootstrap)."""
        rows = [draw.integers(0, len(one), len(one)) for one in self.own]
        own = tuple(one[some] for one, some in zip(self.own, rows, strict=True))
        waits = tuple(one[some] for one, some in zip(self.waits, rows, strict=True))
        return Played(own, waits, self.evens)

    def speedup(self, gone: Sequence[float], stays: float, evened: float) -> float:
        """Give how much faster the joint step is.

        ``stays``: of the waits, where ranks meet less often; 1: they meet as before, and what they
        wait for one another by chance and in turn is as it was.
        """
        own = [one - each for one, each in zip(self.own, gone, strict=True)]
        if self.evens:
            means = [float(one.mean()) for one in own]
            last = int(np.argmax(means))
            surplus = means[last] - max(mean for at, mean in enumerate(means) if at != last)
            own[last] = own[last] - self.evens * evened * surplus
        if stays != 1:
            return _slowest(self.own, self.waits, 1.0) / _slowest(own, self.waits, stays)
        decided = longest(self.own)
        base = max(1.0, decided)
        return base / max(_LEFT, longest(own) + base - decided)


def _slowest(own: Sequence[Float], waits: Sequence[Float], stays: float) -> float:
    """Give the mean step of the rank that has the longest, of what it does and what it waits."""
    pairs = zip(own, waits, strict=True)
    return max(_LEFT, *(float(one.mean() + stays * wait.mean()) for one, wait in pairs))


def longest(own: Sequence[Float]) -> float:
    """Give the mean of the longest of one step of each rank, drawn independently.

    Its distribution is the product of theirs: going up the steps of all ranks, each one's share of
    its own steps grows, and with it the product's logarithm.
    """
    many = np.array([len(one) for one in own])
    values, rank = np.concatenate(own), np.repeat(np.arange(len(own)), many)
    order = np.argsort(values, kind="stable")
    values, rank = values[order], rank[order]
    place = np.empty(len(values), np.int64)  # of a step among those of its rank, from 1
    first = np.repeat(np.cumsum(many) - many, many)
    place[np.argsort(rank, kind="stable")] = np.arange(len(values)) - first + 1
    grows = np.where(place == 1, -np.log(many[rank]), np.log(place / np.maximum(1, place - 1)))
    every = np.cumsum(place == 1) == len(own)  # before, some rank's share is 0
    below = np.where(every, np.exp(np.cumsum(grows)), 0.0)
    return round(float((values * np.diff(below, prepend=0.0)).sum()), _EXACT)


def interval(played: Played, gone: Sequence[Interval], stays: Interval) -> Interval:
    """Give the speed-up: what is not known of the change × which steps the windows saw."""
    mids = [one.mid for one in gone]
    whole = 1 / played.evens if played.evens else 1.0  # what is to be dealt out may be needless
    mid = played.speedup(mids, stays.mid, 1.0)
    low = played.speedup([one.low for one in gone], stays.high, _EVENED)
    high = played.speedup([one.high for one in gone], stays.low, whole)
    draw = np.random.default_rng(0)
    rounds = max(_FEWEST_ROUNDS, _ROUNDS * _RANKS // max(_RANKS, len(gone)))
    again = [played.redrawn(draw).speedup(mids, stays.mid, 1.0) for _ in range(rounds)]
    least, most = np.quantile(again, _ENDS).tolist()
    below = hypot(max(0.0, log(mid / low)), max(0.0, log(mid / least)))
    above = hypot(max(0.0, log(high / mid)), max(0.0, log(most / mid)))
    return Interval(mid * exp(-below), mid, mid * exp(above))
