"""The arms that were run: which count, which pair up, what their side's interval is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gapless.model.interval import Interval
from gapless.model.trial import Verdict
from gapless.verify import compare
from gapless.verify.compare import Float, Pair
from gapless.verify.steady import Range, Stepped, blocks, measured, timed_on_device
from gapless.verify.wanted import OUT_OF_MEMORY, UNEDITED, Candidate, Order, Ran

_FAILURES: Final = 2  # of a side, from which it is refused
_SAME_SAMPLES: Final = 0.01  # a step holds as many


@dataclass(frozen=True)
class Taken:
    """One arm as it was run; ``turn``: arms of one turn are neighbours and pair up."""

    order: Order
    turn: int | None  # None: the discarded one, and those of windows
    ran: Ran
    stepped: Stepped | None
    failed: str | None  # why it does not count
    took_s: float

    @property
    def broken(self) -> str | None:
        """Tell why it could not be measured; what was measured and disturbed is not broken."""
        return self.ran.failed or (None if self.stepped else "it made no two steps")

    @property
    def counts(self) -> bool:
        """Tell whether it is measured."""
        return self.turn is not None and self.failed is None and self.stepped is not None


@dataclass(frozen=True)
class Standing:
    """What the arms so far say."""

    taken: tuple[Taken, ...]

    @cached_property
    def counted(self) -> tuple[Taken, ...]:
        """Give the arms that count."""
        return tuple(one for one in self.taken if one.counts)

    @cached_property
    def on_device(self) -> bool:
        """Tell whether every arm that counts knows when its device came to the ends of steps."""
        stepped = [arm.stepped for arm in self.counted]
        return bool(stepped) and all(
            steps is not None and steps.device_lengths is not None for steps in stepped
        )

    def timed(self, steps: Stepped) -> Stepped:
        """Return steps with the lengths that count here: all arms' on the device, or the host."""
        return timed_on_device(steps) if self.on_device else steps

    @cached_property
    def range(self) -> Range | None:
        """Give the steps that count in all of them."""
        known = [
            (one.order.side, self.timed(one.stepped))
            for one in self.counted
            if one.stepped is not None
        ]
        return measured(known) if known else None

    @cached_property
    def noise(self) -> float | None:
        """Give the A/A noise, of as many pairs as there are unedited arms."""
        sides = dict.fromkeys(one.order.side for one in self.counted)
        same = [ratio for side in sides for ratio in self.alike(side)]
        return compare.noise(same, len(self.of(UNEDITED)))

    def alike(self, side: str) -> list[float]:
        """Give how far successive arms of a side lie apart, as logarithms."""
        return compare.alike([self.blocks(one) for one in self.of(side)] if self.range else [])

    def of(self, side: str) -> tuple[Taken, ...]:
        """Give the arms of a side that count."""
        return tuple(one for one in self.counted if one.order.side == side)

    def blocks(self, one: Taken) -> Float:
        """Give the mean step time of each block of an arm that counts, in ns."""
        if one.stepped is None or self.range is None:
            return np.empty(0)
        return blocks(self.timed(one.stepped), self.range)

    def pairs(self, side: str) -> tuple[Pair, ...]:
        """Give the neighbours of an unedited arm and one of a side; times are for equal samples."""
        more = self.samples(side)
        unedited = {one.turn: one for one in self.of(UNEDITED)}
        return tuple(
            (self.blocks(unedited[one.turn]), self.blocks(one) / more)
            for one in self.of(side)
            if one.turn in unedited and self.range is not None
        )

    def samples(self, side: str) -> float:
        """Give how many times as many samples a step of a side holds; 1 where it is not known."""
        found = [
            [one.stepped.samples for one in self.of(of) if one.stepped is not None]
            for of in (UNEDITED, side)
        ]
        known = [[one for one in each if one is not None] for each in found]
        if not all(known):
            return 1.0
        ratio = float(np.median(known[1]) / np.median(known[0]))
        return 1.0 if abs(ratio - 1) <= _SAME_SAMPLES else ratio

    def speedup(self, side: str) -> Interval | None:
        """Give what a side gains for each step of the unedited runs."""
        return compare.speedup(self.pairs(side), self.alike(UNEDITED) + self.alike(side))

    def out_of_reach(self, side: str, count: int) -> float | None:
        """Return the smallest gain that ``count`` pairs would show, if a side's is likely smaller.

        As a speed-up; ``None``: so many pairs may decide it, or it is too early to tell.
        """
        same = self.alike(UNEDITED) + self.alike(side)
        reach = compare.least_shown(self.pairs(side), same, max(2, count))
        if reach is None or reach[1] >= reach[0] or math.isinf(reach[0]):
            return None
        return math.exp(reach[0])

    def arm_s(self, side: str, planned_s: float) -> float:
        """Return what an arm of a side takes: the mean of those that were run, else as planned."""
        known = [arm.took_s for arm in self.of(side)]
        return sum(known) / len(known) if known else planned_s

    def verdict(self, side: str, candidate: Candidate) -> Verdict:
        """Give what is proven of a side, its failures included."""
        why = self.failures(side)
        if self.lost(side):
            return Verdict.DOES_NOT_FIT if OUT_OF_MEMORY in why else Verdict.REFUSED
        return compare.verdict(self.speedup(side), self.noise, candidate.predicted)

    def failures(self, side: str) -> tuple[str, ...]:
        """Give why arms of a side could not be measured, those of windows apart."""
        mine = (one for one in self.taken if one.order.side == side and not one.order.window)
        return tuple(one.broken for one in mine if one.broken is not None)

    def lost(self, side: str) -> bool:
        """Tell whether a side cannot be measured."""
        why = self.failures(side)
        return OUT_OF_MEMORY in why or len(why) >= _FAILURES

    def over(self, side: str, candidate: Candidate, pairs: int) -> bool:
        """Tell whether a side needs no more arms: it failed, or so many pairs have decided it."""
        if self.lost(side):
            return True
        if len(self.pairs(side)) < pairs:
            return False
        if candidate.resolve is not None:
            return compare.narrow(self.speedup(side), candidate.resolve)
        decided = self.verdict(side, candidate) is not Verdict.UNDECIDED
        return decided or compare.narrow(self.speedup(side))


def foreign(one: Taken) -> float | None:
    """Give the processors that others took, as a share of all: while it stepped, else meanwhile."""
    while_stepping = one.stepped.foreign if one.stepped else None
    return one.ran.foreign if while_stepping is None else while_stepping


def own_noise(standing: Standing, one: Taken) -> float | None:
    """Give the relative half-width of the interval of an arm's own step time."""
    found = standing.blocks(one)
    return compare.own_noise(found) if len(found) else None


def standing(taken: Sequence[Taken]) -> Standing:
    """Give what some arms say."""
    return Standing(tuple(taken))
