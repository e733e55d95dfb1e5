"""Rounds to a value with its interval."""

from collections.abc import Sequence

import numpy as np

from gapless.model.estimate import Estimate
from gapless.verify.arms import compare


def estimate_time(rounds: Sequence[float]) -> Estimate | None:
    """Return the median of rounds with its 95 % interval; of one round it is all that is known.

    Rounds are of other samples, so they spread as those do. ``None`` without rounds.
    """
    times = [time for time in rounds if time > 0]
    if len(times) == 1:
        return Estimate(*times * 3)
    return estimate_speedup(times, [1.0] * len(times))


def estimate_speedup(now: Sequence[float], other: Sequence[float]) -> Estimate | None:
    """Return how many times as fast another way is, by rounds of the same samples.

    ``None`` for fewer than two rounds: they have no spread.
    """
    return compare.estimate_speedup(
        [
            (np.array([before]), np.array([after]))
            for before, after in zip(now, other, strict=False)
            if before > 0 and after > 0
        ]
    )
