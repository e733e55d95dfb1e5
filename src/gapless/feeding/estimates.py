"""Rounds to a value with its interval."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from gapless.model.estimate import Estimate
from gapless.verify.arms.compare import student_quantile

_DRAWS: Final = 1000
_QUANTILES: Final = (0.025, 0.975)
_MEDIAN_FACTOR: Final = 1.25  # the standard error of a median over that of a mean


def estimate_time(rounds: Sequence[float]) -> Estimate | None:
    """Return the median of rounds with its 95 % interval; of one round it is all that is known.

    Rounds are of other samples, so they spread as those do. The interval is the wider, on each
    side, of a bootstrap of medians and Student's around the median. ``None`` without rounds.
    """
    values = np.array([value for value in rounds if value > 0])
    if not len(values):
        return None
    if len(values) == 1:
        return Estimate(float(values[0]), float(values[0]), float(values[0]))
    return _exponential(np.log(values))


def estimate_speedup(now: Sequence[float], other: Sequence[float]) -> Estimate | None:
    """Return how many times as fast another way is, by rounds of the same samples.

    ``None`` for fewer than two rounds: they have no spread.
    """
    count = min(len(now), len(other))
    pairs = [
        (before, after)
        for before, after in zip(now[:count], other[:count], strict=True)
        if before > 0 and after > 0
    ]
    if len(pairs) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    return _exponential(np.array([math.log(before / after) for before, after in pairs]))


def _exponential(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
    middle = float(np.median(logs))
    random = np.random.default_rng(0)
    draws = logs[random.integers(0, len(logs), (_DRAWS, len(logs)))]
    low, high = np.quantile(np.median(draws, axis=1), _QUANTILES)
    error = _MEDIAN_FACTOR * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    half_width = student_quantile(len(logs) - 1) * error
    return Estimate(
        math.exp(min(float(low), middle - half_width)),
        math.exp(middle),
        math.exp(max(float(high), middle + half_width)),
    )
