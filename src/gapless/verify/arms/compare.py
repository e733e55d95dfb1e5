"""From arms to a verdict: speed-up, its interval, the noise of unedited arms, what is proven."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.estimate import Estimate
from gapless.model.trial import TrialVerdict
from gapless.verify.arms.steady import step_time, step_times

Float = npt.NDArray[np.float64]
Pair = tuple[Float, Float]  # block means of an unedited arm and of its neighbour, in ns

MIN_EFFECT: Final = 0.01  # smaller effects are not looked for
# "nothing" is concluded only where so small an effect would have been seen
DETECTABLE_EFFECT: Final = 0.05
_NORMAL_90: Final = 1.2816  # quantile of the normal distribution
_DRAWS: Final = 1000
_QUANTILES: Final = (0.025, 0.975)
# its standard error over the mean's, 3 to 20 normal values: 1.09 … 1.23
_MEDIAN_FACTOR: Final = 1.2
# Student's t, 97.5 %, for 1, 2, … degrees of freedom; beyond, and between, the one before.
_T: Final = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)
_T_LARGE: Final = ((120, 1.98), (60, 2.0), (40, 2.021), (30, 2.042), (25, 2.06), (20, 2.086))


def student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, for the next lower listed degrees of freedom."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return next((value for min_freedom, value in _T_LARGE if freedom >= min_freedom), _T[-1])


def log_ratios(arms: Sequence[Float]) -> list[float]:
    """Return the logarithms of the ratios of successive arms of one side: the true value is 0."""
    times = [step_time(arm) for arm in arms]
    return [math.log(a / b) for a, b in pairwise(times)]


def pair_ratios(pairs: Sequence[Pair]) -> list[float]:
    """Return the logarithm of the speed-up of each pair."""
    return [math.log(step_time(a) / step_time(b)) for a, b in pairs]


def estimate_speedup(pairs: Sequence[Pair], aa_ratios: Sequence[float] = ()) -> Estimate | None:
    """Return the speed-up of neighbouring arms, with its 95 % interval; ``None`` for one pair.

    The median of the log-ratios of the pairs. The interval is the wider, on each side, of two. One
    is a hierarchical bootstrap (Davison & Hinkley 1997, 3.8; Kalibera & Jones 2013): pairs are
    drawn with replacement, in each the blocks of both arms, quantiles of the medians. Of few pairs
    that is too narrow (three hold their median in 3 of 4 cases at best). So the other is Student's,
    around the median and by its standard error. Its spread is pooled from that of the pairs and of
    ``aa_ratios``, the ``log_ratios`` of both sides: these overlap, so two count as one degree of
    freedom.
    """
    if len(pairs) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    ratios = np.array(pair_ratios(pairs))
    mid = float(np.median(ratios))
    squares = np.concatenate(((ratios - ratios.mean()) ** 2, np.square(aa_ratios)))
    freedom = len(ratios) - 1
    root = math.sqrt(float(squares.sum()) / (freedom + len(aa_ratios)))
    half_width = student_quantile(freedom + len(aa_ratios) // 2) * _median_error(root, len(ratios))
    low, high = np.quantile(_bootstrap_medians(pairs), _QUANTILES)
    bounds = (min(low, mid - half_width), mid, max(high, mid + half_width))
    return Estimate(*(math.exp(bound) for bound in bounds))


def _median_error(spread: float, count: int) -> float:
    return _MEDIAN_FACTOR * spread / math.sqrt(count)


def _bootstrap_medians(pairs: Sequence[Pair]) -> Float:
    """Draw pairs, and blocks within their arms; return the medians of the log-ratios."""
    random = np.random.default_rng(0)
    draws = random.integers(0, len(pairs), (_DRAWS, len(pairs)))
    ratios = np.empty((_DRAWS, len(pairs)))
    for index, (unedited, edited) in enumerate(pairs):
        rows, slots = np.nonzero(draws == index)
        times = [_draw_times(random, arm, len(rows)) for arm in (unedited, edited)]
        ratios[rows, slots] = np.log(times[0] / times[1])
    return np.median(ratios, axis=1)


def _draw_times(random: np.random.Generator, arm: Float, draws: int) -> Float:
    """Return an arm's step time for blocks that were drawn again, so many times."""
    return step_times(arm[random.integers(0, len(arm), (draws, len(arm)))])


def estimate_noise(aa_ratios: Sequence[float], pairs: int) -> float | None:
    """Return the relative A/A noise: what so many pairs typically show for an edit without effect.

    The standard error of their median; the root mean square of ``aa_ratios``, the ``log_ratios`` of
    every side, is the spread. ``None`` without any.
    """
    if not aa_ratios or not pairs:
        return None
    return math.expm1(_median_error(math.sqrt(float(np.square(aa_ratios).mean())), pairs))


def estimate_error(sides: Sequence[Sequence[float]]) -> float | None:
    """Return the relative standard error of the mean of a side's ratios, by that of all sides."""
    known = [ratios for ratios in sides if len(ratios) > 1]
    if not known:
        return None
    variances = [float(np.var(ratios, ddof=1)) / len(ratios) for ratios in known]
    return math.expm1(math.sqrt(float(np.mean(variances))))


def arm_noise(arm: Float) -> float | None:
    """Return the relative half-width of an arm's step time; ``None`` for one block."""
    if len(arm) < 2:  # noqa: PLR2004 - one block has no spread
        return None
    error = _median_error(float(arm.std(ddof=1)), len(arm))
    return student_quantile(len(arm) - 1) * error / float(arm.mean())


def proof_bar(aa_noise: float | None, *, noises: int = 1) -> float:
    """Return what an effect must exceed to be proven, as logarithm: max(1 %, the A/A noise).

    The interval holds that noise once already; a verdict that must hardly ever be wrong demands it
    several times (``noises``). Without a known noise nothing exceeds the bar.
    """
    if aa_noise is None:
        return math.inf
    return max(math.log1p(MIN_EFFECT), noises * math.log1p(aa_noise))


def judge_speedup(
    estimate: Estimate | None, aa_noise: float | None, predicted: Estimate | None
) -> TrialVerdict:
    """Judge what a speed-up and the A/A noise prove, and how that compares to the prediction.

    Confirmed: the interval lies above the bar; then larger or smaller if it lies wholly outside
    what was predicted. Worse: below it. Nothing: it lies within 1 %, or holds 1 and no effect of 5
    %; a noisier trial has not shown that there is nothing.
    """
    if estimate is None:
        return TrialVerdict.UNDECIDED
    low, high, bar = math.log(estimate.low), math.log(estimate.high), proof_bar(aa_noise)
    if low > bar:
        return _judge_prediction(estimate, predicted)
    if high < -bar:
        return TrialVerdict.WORSE
    limit = math.log1p(DETECTABLE_EFFECT if low <= 0 <= high else MIN_EFFECT)
    return TrialVerdict.NOTHING if -limit <= low and high <= limit else TrialVerdict.UNDECIDED


def explain_doubt(
    verdict: TrialVerdict, estimate: Estimate | None, aa_noise: float | None
) -> str | None:
    """Return what a gain lacks to be proven; ``None``: none is in sight, or it lacks nothing."""
    if verdict is not TrialVerdict.UNDECIDED or estimate is None or aa_noise is None:
        return None
    bar = math.exp(proof_bar(aa_noise))
    if not 1 < estimate.low <= bar:
        return None
    if proof_bar(aa_noise) == math.log1p(MIN_EFFECT):
        return f"no less than {estimate.low:.3f}× here; proven is only what exceeds {bar:.2f}×"
    return (
        f"no less than {estimate.low:.2f}× here; proven is only what exceeds {bar:.2f}× (the A/A "
        "noise), which more arms lower (--budget)"
    )


def _judge_prediction(estimate: Estimate, predicted: Estimate | None) -> TrialVerdict:
    if predicted is not None and estimate.low > predicted.high:
        return TrialVerdict.LARGER
    if predicted is not None and estimate.high < predicted.low:
        return TrialVerdict.SMALLER
    return TrialVerdict.CONFIRMED


def find_provable_gain(
    ratios: Sequence[float], aa_ratios: Sequence[float], count: int, *, in_turns: bool = False
) -> tuple[float, float] | None:
    """Return the smallest gain that ``count`` pairs are likely to prove, and what may be there.

    All as logarithms; ``ratios`` are those of the pairs so far. What spread they show is assumed to
    stay, but of few it is known roughly: the lower end of its 90 % interval counts, lest a trial is
    given up for two arms that happen to lie apart. What may be there: the median so far and its
    standard error. ``None`` while there are fewer than two pairs, and where so many pairs would
    show that there is nothing.
    """
    if len(ratios) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    squares = np.concatenate(((np.array(ratios) - np.mean(ratios)) ** 2, np.square(aa_ratios)))
    spread = math.sqrt(float(squares.sum()) / (len(ratios) - 1 + len(aa_ratios)))
    factor = _lower_spread(len(ratios) - 1 + len(aa_ratios) // 2)
    freedom = (count - 1) if in_turns else 2 * (count - 1)
    half_width = student_quantile(freedom) * factor * _median_error(spread, count)
    if half_width <= math.log1p(DETECTABLE_EFFECT):
        return None
    possible_gain = abs(float(np.median(ratios))) + _median_error(spread, len(ratios))
    noise = 0.0 if in_turns else estimate_noise([factor * ratio for ratio in aa_ratios], count)
    return proof_bar(noise) + half_width, possible_gain


def _lower_spread(freedom: int) -> float:
    """Return how small, in parts of what was seen, a standard deviation is with 90 % confidence.

    By Wilson and Hilferty's approximation of the quantile of chi-square.
    """
    share = 2 / (9 * freedom)
    return float((1 - share + _NORMAL_90 * math.sqrt(share)) ** -1.5)


def is_narrow(estimate: Estimate | None, half_width: float = MIN_EFFECT) -> bool:
    """Return whether an interval is so narrow that more arms would add nothing."""
    return estimate is not None and (estimate.high - estimate.low) / 2 <= half_width * estimate.mid
