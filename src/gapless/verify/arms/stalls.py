"""Steps that take far longer than usual and are too rare for each block of a trial to hold one.

A collection of all of Python's objects every 130 steps falls into one block of six: compared as
they are, such blocks differ by its length, whatever was switched. So what these steps take beyond
the usual ones is left out of blocks, and counted over all blocks of a side.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.estimate import Estimate, binomial_chances
from gapless.model.trace import Int64
from gapless.verify.arms.compare import Float

_MIN_LENGTH: Final = 2.0  # times the median step of its block
_TAIL: Final = 0.025  # chance of what is not taken for chance, on each side
_NORMAL_TAIL: Final = 1.96  # normal deviations for the same


class Stalls(Struct, frozen=True):
    """How many steps of some blocks were stalls, and what these took beyond usual steps."""

    steps: int  # all of the blocks, stalls or not
    count: int
    excess_ns: float  # of all stalls together
    collections: int  # stalls that a garbage collection explains

    @property
    def step_ns(self) -> float:
        """Return what stalls add to a step, on average."""
        return self.excess_ns / self.steps if self.steps else 0.0


def split_stalls(lengths: Float | Int64, collecting_ns: Float) -> tuple[Float, Stalls]:
    """Return the steps of a block with stalls as long as its usual steps, and those stalls.

    ``collecting_ns``: the longest garbage collection in each step.
    """
    usual_ns = float(np.median(lengths))
    is_stall = lengths > _MIN_LENGTH * usual_ns
    excess_ns = np.where(is_stall, lengths - usual_ns, 0.0)
    n_collections = int((is_stall & (collecting_ns > excess_ns / 2)).sum())
    usual = np.where(is_stall, usual_ns, lengths).astype(np.float64)
    stalls = Stalls(len(lengths), int(is_stall.sum()), float(excess_ns.sum()), n_collections)
    return usual, stalls


def add_stalls(parts: Sequence[Stalls]) -> Stalls:
    """Return the stalls of several blocks as those of one."""
    return Stalls(
        sum(stall.steps for stall in parts),
        sum(stall.count for stall in parts),
        sum(stall.excess_ns for stall in parts),
        sum(stall.collections for stall in parts),
    )


def are_rare(parts: Sequence[Stalls]) -> bool:
    """Return whether most blocks hold none: otherwise stalls are a part of what blocks measure."""
    return sum(stall.count > 0 for stall in parts) < len(parts) / 2


def include_stalls(
    speedup: Estimate, unedited_ns: float, of_a: Stalls, of_b: Stalls, *, collects_as_before: bool
) -> Estimate:
    """Return the speed-up of whole steps, from that of steps without stalls.

    ``unedited_ns``: an unedited step without stalls. An edit is taken to leave stalls as frequent
    as they are, unless both counts say otherwise (a binomial test, 2.5 % on each side); one of
    whose blocks none held any may have ended them, which the upper end allows for, but for garbage
    collections where it is known to leave the collector alone (``collects_as_before``). The lower
    end allows for those that its blocks held being its own doing, with the same exception. Where
    counts differ, those of the edit have the interval of a Poisson count.
    """
    pooled_ns = add_stalls((of_a, of_b)).step_ns
    a_ns, low_ns, mid_ns, high_ns = (pooled_ns,) * 4
    is_explained = collects_as_before and of_a.collections == of_a.count
    if not of_b.count and not is_explained:
        high_ns = 0.0
    if not collects_as_before or of_b.collections < of_b.count:
        low_ns = max(low_ns, of_b.step_ns)
    if direction := _compare_counts(of_a, of_b):
        a_ns, mid_ns = of_a.step_ns, of_b.step_ns
        each_ns = add_stalls((of_a, of_b)).excess_ns / (of_a.count + of_b.count)
        fewest, most = (limit * each_ns / of_b.steps for limit in _limit_count(of_b.count))
        low_ns = most if direction > 0 else min(most, a_ns)
        high_ns = fewest if direction < 0 else max(fewest, a_ns)
    stalls_ns = (low_ns, mid_ns, high_ns)
    bounds = zip((speedup.low, speedup.mid, speedup.high), stalls_ns, strict=True)
    return Estimate(
        *((unedited_ns + a_ns) / (unedited_ns / ratio + stall_ns) for ratio, stall_ns in bounds)
    )


def expect_stalls(of_a: Stalls, of_b: Stalls) -> float:
    """Return what stalls add to a step of B on average: its own where its count differs from A's.

    Where it does not, they are taken to come as often in both.
    """
    return of_b.step_ns if _compare_counts(of_a, of_b) else add_stalls((of_a, of_b)).step_ns


def _compare_counts(of_a: Stalls, of_b: Stalls) -> int:
    """Return 1 where B has more stalls for its steps than chance explains, −1: fewer, 0: neither.

    Where stalls come equally often, those of B are a binomial part of all.
    """
    count, share = of_a.count + of_b.count, of_b.steps / max(1, of_a.steps + of_b.steps)
    chances = binomial_chances(count, share)
    if sum(chances[of_b.count :]) < _TAIL:
        return 1
    return -1 if sum(chances[: of_b.count + 1]) < _TAIL else 0


def _limit_count(count: int) -> tuple[float, float]:
    """Return the 95 % interval of a Poisson count's mean (Wilson and Hilferty 1931)."""
    return _cube(count, -_NORMAL_TAIL), _cube(count + 1, _NORMAL_TAIL)


def _cube(count: int, deviations: float) -> float:
    if not count:
        return 0.0
    return count * max(0.0, 1 - 1 / (9 * count) + deviations / (3 * math.sqrt(count))) ** 3
