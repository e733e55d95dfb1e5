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
from gapless.model.interval import Estimate

_MIN_EVENED: Final = 0.85  # of a surplus, at the least: profilers may have made it larger
_MAX_ROUNDS: Final = 200
_MIN_ROUNDS: Final = 40
_FULL_RANKS: Final = 8  # of so many and fewer all rounds are drawn: of more, the longest varies less
_QUANTILES: Final = (0.05, 0.95)
_DECIMALS: Final = 12  # places: what changes nothing is no change by rounding either
_MIN_REMAINING: Final = 0.02  # of a step stays at least


@dataclass(frozen=True)
class JointSteps:
    """Steps of each rank, in shares of the mean step: what it does by itself, what it waits."""

    own_work: tuple[Float, ...]
    waits: tuple[Float, ...]
    evened_share: float

    @classmethod
    def from_ranks(cls, ranks: Sequence[Rank], evened_share: float) -> "JointSteps":
        """Return the steps that windows saw.

        ``evens``: of what the slowest does more than the next, so much goes (0: nothing).
        """
        mean = float(np.concatenate([rank.lengths for rank in ranks]).mean())
        own_work, waits = [rank.own_lengths / mean for rank in ranks], [rank.waits / mean for rank in ranks]
        return cls(tuple(own_work), tuple(waits), evened_share)

    def redraw(self, rng: np.random.Generator) -> "JointSteps":
        """Draw each rank's steps anew (bootstrap)."""
        rows = [rng.integers(0, len(steps), len(steps)) for steps in self.own_work]
        own_work = tuple(steps[indices] for steps, indices in zip(self.own_work, rows, strict=True))
        waits = tuple(steps[indices] for steps, indices in zip(self.waits, rows, strict=True))
        return JointSteps(own_work, waits, self.evened_share)

    def speedup(self, removed_shares: Sequence[float], remaining_waits: float, evened_part: float) -> float:
        """Return how much faster the joint step is.

        ``stays``: of the waits, where ranks meet less often; 1: they meet as before, and what they
        wait for one another by chance and in turn is as it was.
        """
        own_work = [steps - share for steps, share in zip(self.own_work, removed_shares, strict=True)]
        if self.evened_share:
            means = [float(steps.mean()) for steps in own_work]
            slowest_rank = int(np.argmax(means))
            surplus = means[slowest_rank] - max(mean for index, mean in enumerate(means) if index != slowest_rank)
            own_work[slowest_rank] = own_work[slowest_rank] - self.evened_share * evened_part * surplus
        if remaining_waits != 1:
            return _slowest_mean(self.own_work, self.waits, 1.0) / _slowest_mean(own_work, self.waits, remaining_waits)
        unchanged_length = mean_longest(self.own_work)
        base_length = max(1.0, unchanged_length)
        return base_length / max(_MIN_REMAINING, mean_longest(own_work) + base_length - unchanged_length)


def _slowest_mean(own_work: Sequence[Float], waits: Sequence[Float], remaining_waits: float) -> float:
    """Return the mean step of the rank that has the longest, of what it does and what it waits."""
    pairs = zip(own_work, waits, strict=True)
    return max(_MIN_REMAINING, *(float(steps.mean() + remaining_waits * wait.mean()) for steps, wait in pairs))


def mean_longest(own_work: Sequence[Float]) -> float:
    """Return the mean of the longest of one step of each rank, drawn independently.

    Its distribution is the product of theirs: going up the steps of all ranks, each one's share of
    its own steps grows, and with it the product's logarithm.
    """
    step_counts = np.array([len(steps) for steps in own_work])
    values, rank = np.concatenate(own_work), np.repeat(np.arange(len(own_work)), step_counts)
    order = np.argsort(values, kind="stable")
    values, rank = values[order], rank[order]
    position = np.empty(len(values), np.int64)  # of a step among those of its rank, from 1
    rank_starts = np.repeat(np.cumsum(step_counts) - step_counts, step_counts)
    position[np.argsort(rank, kind="stable")] = np.arange(len(values)) - rank_starts + 1
    log_growth = np.where(position == 1, -np.log(step_counts[rank]), np.log(position / np.maximum(1, position - 1)))
    has_all_ranks = np.cumsum(position == 1) == len(own_work)  # before, some rank's share is 0
    below = np.where(has_all_ranks, np.exp(np.cumsum(log_growth)), 0.0)
    return round(float((values * np.diff(below, prepend=0.0)).sum()), _DECIMALS)


def estimate_speedup(steps: JointSteps, removed_shares: Sequence[Estimate], remaining_waits: Estimate) -> Estimate:
    """Return the speed-up: what is not known of the change × which steps the windows saw."""
    mids = [share.mid for share in removed_shares]
    max_evened = 1 / steps.evened_share if steps.evened_share else 1.0  # what is to be dealt out may be needless
    mid = steps.speedup(mids, remaining_waits.mid, 1.0)
    low = steps.speedup([share.low for share in removed_shares], remaining_waits.high, _MIN_EVENED)
    high = steps.speedup([share.high for share in removed_shares], remaining_waits.low, max_evened)
    rng = np.random.default_rng(0)
    rounds = max(_MIN_ROUNDS, _MAX_ROUNDS * _FULL_RANKS // max(_FULL_RANKS, len(removed_shares)))
    redrawn_speedups = [steps.redraw(rng).speedup(mids, remaining_waits.mid, 1.0) for _ in range(rounds)]
    low_end, high_end = np.quantile(redrawn_speedups, _QUANTILES).tolist()
    below = hypot(max(0.0, log(mid / low)), max(0.0, log(mid / low_end)))
    above = hypot(max(0.0, log(high / mid)), max(0.0, log(high_end / mid)))
    return Estimate(mid * exp(-below), mid, mid * exp(above))
