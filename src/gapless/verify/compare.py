"""From arms to a verdict: speed-up, its interval, the noise of unedited arms, what that proves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.trial import Interval, Verdict
from gapless.verify.steady import step_time, step_times

Float = npt.NDArray[np.float64]
Pair = tuple[Float, Float]  # block means of an unedited arm and of its neighbour, in ns

LEAST: Final = 0.01  # what is smaller is not looked for
RESOLVED: Final = 0.05  # "nothing" is said only where so small an effect would have been seen
_DRAWS: Final = 1000
_COVERED: Final = (0.025, 0.975)
_OF_MEDIAN: Final = 1.2  # its standard error over the mean's, 3 to 20 normal values: 1.09 … 1.23
# Student's t, 97.5 %, for 1, 2, … degrees of freedom; beyond, and between, the one before.
_T: Final = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)
_T_MORE: Final = ((120, 1.98), (60, 2.0), (40, 2.021), (30, 2.042), (25, 2.06), (20, 2.086))


def student(freedom: int) -> float:
    """Give the 97.5 % quantile of Student's t; of the next fewer degrees that are listed."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return next((value for least, value in _T_MORE if freedom >= least), _T[-1])


def speedup(pairs: Sequence[Pair]) -> Interval | None:
    """Give the speed-up that neighbouring arms show, with its 95 % interval; ``None`` for one pair.

    The median of the log-ratios of the pairs. The interval is the wider, on each side, of two. One
    is a hierarchical bootstrap (Davison & Hinkley 1997, 3.8; Kalibera & Jones 2013): pairs are
    drawn with replacement, in each the blocks of both arms, quantiles of the medians. Of few pairs
    that is too narrow (three hold their median in 3 of 4 cases at best). So the other is Student's,
    with the spread of the pairs, around the median and by its standard error.
    """
    if len(pairs) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    ratios = np.array([math.log(step_time(a) / step_time(b)) for a, b in pairs])
    mid = float(np.median(ratios))
    half = _half(float(ratios.std(ddof=1)), len(ratios), len(ratios) - 1)
    low, high = np.quantile(_drawn(pairs), _COVERED)
    bounds = (min(low, mid - half), mid, max(high, mid + half))
    return Interval(*(math.exp(one) for one in bounds))


def _half(spread: float, count: int, freedom: int) -> float:
    return student(freedom) * _OF_MEDIAN * spread / math.sqrt(count)


def _drawn(pairs: Sequence[Pair]) -> Float:
    """Draw pairs, and blocks within their arms; give the medians of the log-ratios."""
    random = np.random.default_rng(0)
    chosen = random.integers(0, len(pairs), (_DRAWS, len(pairs)))
    ratios = np.empty((_DRAWS, len(pairs)))
    for at, (unedited, edited) in enumerate(pairs):
        rows, slots = np.nonzero(chosen == at)
        times = [_times(random, arm, len(rows)) for arm in (unedited, edited)]
        ratios[rows, slots] = np.log(times[0] / times[1])
    return np.median(ratios, axis=1)


def _times(random: np.random.Generator, arm: Float, draws: int) -> Float:
    """Give an arm's step time for blocks that were drawn again, so many times."""
    return step_times(arm[random.integers(0, len(arm), (draws, len(arm)))])


def noise(unedited: Sequence[Float]) -> float | None:
    """Give the A/A noise: what unedited arms, compared with one another, would seem to gain.

    The half-width of the 95 % interval of the ratio of neighbouring ones, whose truth is known to
    be 1: their root mean square takes the place of a spread. ``None`` with fewer than two.
    """
    times = [step_time(one) for one in unedited]
    ratios = np.diff(np.log(times)) if times else np.empty(0)
    if not len(ratios):
        return None
    root = float(np.sqrt((ratios**2).mean()))
    return math.expm1(_half(root, len(ratios), len(ratios)))


def own_noise(arm: Float) -> float | None:
    """Give the half-width of the interval of an arm's own step time, relative: ``None`` of one."""
    if len(arm) < 2:  # noqa: PLR2004 - one block has no spread
        return None
    return _half(float(arm.std(ddof=1)), len(arm), len(arm) - 1) / float(arm.mean())


@dataclass(frozen=True)
class Bar:
    """What an effect must exceed to be proven, as logarithm: max(1 %, twice the A/A noise)."""

    log: float

    @property
    def resolves(self) -> bool:
        """Tell whether an effect of 5 % would exceed it."""
        return self.log <= math.log1p(RESOLVED)


def bar(aa: float | None) -> Bar:
    """Give the bar; without a known noise nothing exceeds it."""
    return Bar(math.inf if aa is None else max(math.log1p(LEAST), 2 * math.log1p(aa)))


def verdict(found: Interval | None, aa: float | None, predicted: Interval | None) -> Verdict:
    """Say what a speed-up and the A/A noise prove, and how that stands to the prediction.

    Confirmed: the interval lies above the bar; then larger or smaller if it lies wholly beside
    what was predicted. Worse: below it. Nothing: within it, where the bar is 5 % at most; a noisier
    trial has not seen that there is nothing.
    """
    if found is None:
        return Verdict.UNDECIDED
    low, high, most = math.log(found.low), math.log(found.high), bar(aa)
    if low > most.log:
        return _against(found, predicted)
    if high < -most.log:
        return Verdict.WORSE
    if most.resolves and -most.log <= low and high <= most.log:
        return Verdict.NOTHING
    return Verdict.UNDECIDED


def _against(found: Interval, predicted: Interval | None) -> Verdict:
    if predicted is not None and found.low > predicted.high:
        return Verdict.LARGER
    if predicted is not None and found.high < predicted.low:
        return Verdict.SMALLER
    return Verdict.CONFIRMED


def narrow(found: Interval | None) -> bool:
    """Tell whether an interval is so narrow that more arms would add nothing."""
    return found is not None and (found.high - found.low) / 2 <= LEAST * found.mid
