"""How long the step of several ranks is: the mean of the longest of one step of each.

Steps of different ranks are drawn independently of one another, changed and unchanged alike, so
that the waits of ranks for one another by chance stay.
"""

from collections.abc import Sequence
from math import exp, hypot, log
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.catalogue.queries.ranks.rank_steps import Float, Rank
from gapless.model.estimate import Estimate

_MIN_EVENED: Final = 0.85  # of a surplus, at least: profilers may have made it larger
_MAX_ROUNDS: Final = 200
_MIN_ROUNDS: Final = 40
_FULL_RANKS: Final = 8  # up to so many ranks all rounds are drawn: of more, the longest varies less
_QUANTILES: Final = (0.05, 0.95)
_DECIMALS: Final = 12  # decimal places: no change must be none after rounding either
_MIN_REMAINING: Final = 0.02  # of a step stays at least


class JointSteps(Struct, frozen=True):
    """Steps of each rank, in shares of the mean step: its own work, its waits."""

    own_work: tuple[Float, ...]
    waits: tuple[Float, ...]
    evened_share: float

    @classmethod
    def from_ranks(cls, ranks: Sequence[Rank], evened_share: float) -> "JointSteps":
        """Return the steps that windows saw.

        ``evened_share``: the part of the slowest rank's surplus over the next that goes (0:
        none).
        """
        mean = float(np.concatenate([rank.lengths for rank in ranks]).mean())
        own_work, waits = (
            [rank.own_lengths / mean for rank in ranks],
            [rank.waits / mean for rank in ranks],
        )
        return cls(tuple(own_work), tuple(waits), evened_share)

    def redraw(self, rng: np.random.Generator) -> "JointSteps":
        """Redraw each rank's steps (bootstrap)."""
        rows = [rng.integers(0, len(steps), len(steps)) for steps in self.own_work]
        own_work = tuple(steps[indices] for steps, indices in zip(self.own_work, rows, strict=True))
        waits = tuple(steps[indices] for steps, indices in zip(self.waits, rows, strict=True))
        return JointSteps(own_work, waits, self.evened_share)

    def speedup(
        self, removed_shares: Sequence[float], remaining_waits: float, evened_part: float
    ) -> float:
        """Return how much faster the joint step is.

        ``remaining_waits``: the share of the waits that stays where ranks meet less often; 1: they
        meet as before, and their waits for one another by chance and in turn stay.
        """
        own_work = [
            steps - share for steps, share in zip(self.own_work, removed_shares, strict=True)
        ]
        if self.evened_share:
            means = [float(steps.mean()) for steps in own_work]
            slowest_rank = int(np.argmax(means))
            surplus = means[slowest_rank] - max(
                mean for index, mean in enumerate(means) if index != slowest_rank
            )
            own_work[slowest_rank] = (
                own_work[slowest_rank] - self.evened_share * evened_part * surplus
            )
        if remaining_waits != 1:
            return _slowest_mean(self.own_work, self.waits, 1.0) / _slowest_mean(
                own_work, self.waits, remaining_waits
            )
        unchanged_length = mean_longest(self.own_work)
        base_length = max(1.0, unchanged_length)
        return base_length / max(
            _MIN_REMAINING, mean_longest(own_work) + base_length - unchanged_length
        )


def _slowest_mean(
    own_work: Sequence[Float], waits: Sequence[Float], remaining_waits: float
) -> float:
    """Return the mean step of the slowest rank, of its work and its waits."""
    pairs = zip(own_work, waits, strict=True)
    return max(
        _MIN_REMAINING,
        *(float(steps.mean() + remaining_waits * wait.mean()) for steps, wait in pairs),
    )


def mean_longest(own_work: Sequence[Float]) -> float:
    """Return the mean of the longest of one step of each rank, drawn independently.

    Its distribution is the product of theirs: in ascending order of all steps, each rank's share of
    its own steps grows, and with it the logarithm of the product.
    """
    step_counts = np.array([len(steps) for steps in own_work])
    values, rank = np.concatenate(own_work), np.repeat(np.arange(len(own_work)), step_counts)
    order = np.argsort(values, kind="stable")
    values, rank = values[order], rank[order]
    position = np.empty(len(values), np.int64)  # of a step within its rank, from 1
    rank_starts = np.repeat(np.cumsum(step_counts) - step_counts, step_counts)
    position[np.argsort(rank, kind="stable")] = np.arange(len(values)) - rank_starts + 1
    log_growth = np.where(
        position == 1, -np.log(step_counts[rank]), np.log(position / np.maximum(1, position - 1))
    )
    has_all_ranks = np.cumsum(position == 1) == len(own_work)  # before, some rank's share is 0
    below = np.where(has_all_ranks, np.exp(np.cumsum(log_growth)), 0.0)
    return round(float((values * np.diff(below, prepend=0.0)).sum()), _DECIMALS)


def estimate_speedup(
    steps: JointSteps, removed_shares: Sequence[Estimate], remaining_waits: Estimate
) -> Estimate:
    """Return the speed-up: uncertainty of the change × of which steps the windows saw."""
    mids = [share.mid for share in removed_shares]
    max_evened = (
        1 / steps.evened_share if steps.evened_share else 1.0
    )  # drawing for every change may be needless
    mid = steps.speedup(mids, remaining_waits.mid, 1.0)
    low = steps.speedup([share.low for share in removed_shares], remaining_waits.high, _MIN_EVENED)
    high = steps.speedup([share.high for share in removed_shares], remaining_waits.low, max_evened)
    rng = np.random.default_rng(0)
    rounds = max(_MIN_ROUNDS, _MAX_ROUNDS * _FULL_RANKS // max(_FULL_RANKS, len(removed_shares)))
    redrawn_speedups = [
        steps.redraw(rng).speedup(mids, remaining_waits.mid, 1.0) for _ in range(rounds)
    ]
    low_end, high_end = np.quantile(redrawn_speedups, _QUANTILES).tolist()
    below = hypot(max(0.0, log(mid / low)), max(0.0, log(mid / low_end)))
    above = hypot(max(0.0, log(high / mid)), max(0.0, log(high_end / mid)))
    return Estimate(mid * exp(-below), mid, mid * exp(above))
