"""From arms to a verdict: speed-up, its interval, the noise of unedited arms, what that proves."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.interval import Interval
from gapless.model.trial import Verdict
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


def alike(arms: Sequence[Float]) -> list[float]:
    """Give the logarithms of the ratios of successive arms of one side, whose truth is known: 0."""
    times = [step_time(one) for one in arms]
    return [math.log(a / b) for a, b in pairwise(times)]


def speedup(pairs: Sequence[Pair], same: Sequence[float] = ()) -> Interval | None:
    """Give the speed-up that neighbouring arms show, with its 95 % interval; ``None`` for one pair.

    The median of the log-ratios of the pairs. The interval is the wider, on each side, of two. One
    is a hierarchical bootstrap (Davison & Hinkley 1997, 3.8; Kalibera & Jones 2013): pairs are
    drawn with replacement, in each the blocks of both arms, quantiles of the medians. Of few pairs
    that is too narrow (three hold their median in 3 of 4 cases at best). So the other is Student's,
    around the median and by its standard error. Its spread is pooled from that of the pairs and of
    ``same``, the ``alike`` of both sides: these overlap, so two count as one degree of freedom.
    """
    if len(pairs) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    ratios = np.array([math.log(step_time(a) / step_time(b)) for a, b in pairs])
    mid = float(np.median(ratios))
    squares = np.concatenate(((ratios - ratios.mean()) ** 2, np.square(same)))
    freedom = len(ratios) - 1
    root = math.sqrt(float(squares.sum()) / (freedom + len(same)))
    half = student(freedom + len(same) // 2) * _error(root, len(ratios))
    low, high = np.quantile(_drawn(pairs), _COVERED)
    bounds = (min(low, mid - half), mid, max(high, mid + half))
    return Interval(*(math.exp(one) for one in bounds))


def _error(spread: float, count: int) -> float:
    return _OF_MEDIAN * spread / math.sqrt(count)


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


def noise(same: Sequence[float], pairs: int) -> float | None:
    """Give the A/A noise: what so many pairs typically show of an edit that does nothing, relative.

    The standard error of their median; the root mean square of ``same``, the ``alike`` of every
    side, is the spread. ``None`` without any.
    """
    if not same or not pairs:
        return None
    return math.expm1(_error(math.sqrt(float(np.square(same).mean())), pairs))


def own_noise(arm: Float) -> float | None:
    """Give the half-width of the interval of an arm's own step time, relative: ``None`` of one."""
    if len(arm) < 2:  # noqa: PLR2004 - one block has no spread
        return None
    error = _error(float(arm.std(ddof=1)), len(arm))
    return student(len(arm) - 1) * error / float(arm.mean())


def bar(aa: float | None) -> float:
    """Give what an effect must exceed to be proven, as logarithm: max(1 %, twice the A/A noise).

    Without a known noise nothing exceeds it.
    """
    return math.inf if aa is None else max(math.log1p(LEAST), 2 * math.log1p(aa))


def verdict(found: Interval | None, aa: float | None, predicted: Interval | None) -> Verdict:
    """Say what a speed-up and the A/A noise prove, and how that stands to the prediction.

    Confirmed: the interval lies above the bar; then larger or smaller if it lies wholly beside
    what was predicted. Worse: below it. Nothing: it lies within 1 %, or holds 1 and no effect of
    5 %; a noisier trial has not seen that there is nothing.
    """
    if found is None:
        return Verdict.UNDECIDED
    low, high, most = math.log(found.low), math.log(found.high), bar(aa)
    if low > most:
        return _against(found, predicted)
    if high < -most:
        return Verdict.WORSE
    within = math.log1p(RESOLVED if low <= 0 <= high else LEAST)
    return Verdict.NOTHING if -within <= low and high <= within else Verdict.UNDECIDED


def _against(found: Interval, predicted: Interval | None) -> Verdict:
    if predicted is not None and found.low > predicted.high:
        return Verdict.LARGER
    if predicted is not None and found.high < predicted.low:
        return Verdict.SMALLER
    return Verdict.CONFIRMED


def least_shown(
    pairs: Sequence[Pair], same: Sequence[float], count: int
) -> tuple[float, float] | None:
    """Return the smallest gain that ``count`` pairs are likely to prove, and what may be there.

    Both as logarithms; the spread of the arms so far is taken to stay. What may be there: the
    median so far and its standard error. ``None`` while there are fewer than two pairs, and where
    so many pairs would tell that there is nothing.
    """
    if len(pairs) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    ratios = np.array([math.log(step_time(a) / step_time(b)) for a, b in pairs])
    squares = np.concatenate(((ratios - ratios.mean()) ** 2, np.square(same)))
    spread = math.sqrt(float(squares.sum()) / (len(ratios) - 1 + len(same)))
    half = student(2 * (count - 1)) * _error(spread, count)
    if half <= math.log1p(RESOLVED):
        return None
    maybe = abs(float(np.median(ratios))) + _error(spread, len(ratios))
    return bar(noise(same, count)) + half, maybe


def narrow(found: Interval | None, half: float = LEAST) -> bool:
    """Tell whether an interval is so narrow that more arms would add nothing."""
    return found is not None and (found.high - found.low) / 2 <= half * found.mid
