"""Speed-ups, their intervals, the noise of unedited arms, and what is proven."""

import math
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from gapless.model.interval import Interval
from gapless.model.trial import Verdict
from gapless.verify.compare import (
    alike,
    bar,
    narrow,
    noise,
    own_noise,
    speedup,
    student,
    verdict,
)

Float = npt.NDArray[np.float64]
ORDER = "ABBABAABBAABABBA"


def arm(ms: float, blocks: int = 6) -> Float:
    return np.full(blocks, ms * 1e6)


def found(low: float, mid: float, high: float) -> Interval:
    return Interval(low, mid, high)


def test_equal_pairs_give_their_ratio_with_no_width() -> None:
    result = speedup([(arm(10), arm(8))] * 3)
    assert result is not None
    assert (result.low, result.mid, result.high) == pytest.approx((1.25, 1.25, 1.25))


def test_one_pair_gives_no_interval() -> None:
    assert speedup([(arm(10), arm(5))]) is None
    assert speedup([]) is None


def test_the_middle_is_the_median_of_the_pairs_and_no_mean() -> None:
    result = speedup([(arm(10), arm(10)), (arm(10), arm(10)), (arm(10), arm(1))])
    assert result is not None
    assert result.mid == pytest.approx(1.0)
    assert result.high > 5


def test_three_pairs_have_a_wider_interval_than_their_extremes() -> None:
    result = speedup([(arm(10), arm(9.9)), (arm(10), arm(10)), (arm(10), arm(10.1))])
    assert result is not None
    assert result.low < 0.98
    assert result.high > 1.02


def test_pairs_that_agree_by_luck_are_no_surer_than_their_blocks() -> None:
    wild = np.array([6.0, 14, 8, 12, 10, 10]) * 1e6
    result = speedup([(wild, wild), (wild, wild), (wild, wild)])
    assert result is not None
    assert result.high / result.low > 1.1


def test_few_blocks_are_drawn_as_means() -> None:
    result = speedup([(np.array([10e6, 12e6]), np.array([11e6]))] * 3)
    assert result is not None
    assert result.mid == pytest.approx(1.0)


def test_the_same_arms_give_the_same_interval() -> None:
    random = np.random.default_rng(3)
    pairs = [(random.normal(10, 1, 8), random.normal(9, 1, 8)) for _ in range(4)]
    assert speedup(pairs) == speedup(pairs)


def test_arms_of_one_side_that_vary_widen_the_interval_of_pairs_that_agree_by_luck() -> None:
    pairs = [(arm(10), arm(8))] * 3
    lucky = speedup(pairs)
    wary = speedup(pairs, alike([arm(10), arm(12), arm(10)]))
    assert lucky is not None
    assert wary is not None
    assert lucky.high / lucky.low == pytest.approx(1.0)
    assert wary.high / wary.low > 1.2
    assert wary.mid == lucky.mid


def test_arms_of_one_side_that_agree_narrow_the_interval_of_few_pairs() -> None:
    pairs = [(arm(10), arm(8)), (arm(10), arm(8)), (arm(10.4), arm(8))]
    alone, both = speedup(pairs), speedup(pairs, alike([arm(10), arm(10.1), arm(10), arm(10.1)]))
    assert alone is not None
    assert both is not None
    assert both.high / both.low < alone.high / alone.low


def test_successive_arms_are_compared_as_logarithms() -> None:
    assert alike([arm(10), arm(20), arm(10)]) == pytest.approx([-math.log(2), math.log(2)])
    assert alike([arm(10)]) == alike([]) == []


def test_noise_needs_two_arms_of_a_side() -> None:
    assert noise([], 3) is None
    assert noise([0.1], 0) is None
    assert noise(alike([arm(10), arm(10)]), 2) == 0


def test_noise_is_the_error_of_the_median_of_so_many_pairs() -> None:
    one = noise([0.02, -0.02], 4)
    assert one is not None
    assert one == pytest.approx(math.expm1(1.2 * 0.02 / 2))
    assert noise([0.02, -0.02] * 8, 16) == pytest.approx(one / 2, rel=0.01)


def test_an_arms_own_noise_needs_two_blocks() -> None:
    assert own_noise(arm(10, 1)) is None
    assert own_noise(arm(10, 4)) == 0
    varied = own_noise(np.array([9.0, 11, 9, 11]))
    assert varied is not None
    assert varied > 0.1


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.71), (2, 4.303), (12, 2.179), (15, 2.179), (20, 2.086), (35, 2.042), (500, 1.98)],
)
def test_student_is_that_of_no_more_degrees_than_there_are(freedom: int, expected: float) -> None:
    assert student(freedom) == expected


def test_the_bar_is_one_per_cent_or_twice_the_noise() -> None:
    assert bar(0.001) == pytest.approx(math.log(1.01))
    assert bar(0.03) == pytest.approx(2 * math.log(1.03))
    assert bar(None) == math.inf


@pytest.mark.parametrize(
    ("interval", "aa", "predicted", "expected"),
    [
        (None, 0.001, None, Verdict.UNDECIDED),
        (found(1.02, 1.05, 1.08), 0.001, None, Verdict.CONFIRMED),
        (found(1.02, 1.05, 1.08), 0.02, None, Verdict.UNDECIDED),
        (found(1.02, 1.05, 1.08), None, None, Verdict.UNDECIDED),
        (found(0.9, 0.93, 0.97), 0.001, None, Verdict.WORSE),
        (found(0.995, 1.0, 1.005), 0.001, None, Verdict.NOTHING),
        (found(1.002, 1.004, 1.008), 0.001, None, Verdict.NOTHING),  # it is too small to matter
        (found(1.002, 1.006, 1.012), 0.001, None, Verdict.UNDECIDED),
        (found(0.97, 1.0, 1.03), 0.02, None, Verdict.NOTHING),
        (found(0.94, 1.0, 1.03), 0.02, None, Verdict.UNDECIDED),  # 5 % might have been missed
        (found(0.7, 1.0, 1.4), 0.2, None, Verdict.UNDECIDED),
        (found(1.3, 1.4, 1.5), 0.01, found(1.35, 1.6, 2.0), Verdict.CONFIRMED),
        (found(1.3, 1.4, 1.5), 0.01, found(1.6, 1.8, 2.0), Verdict.SMALLER),
        (found(1.3, 1.4, 1.5), 0.01, found(1.1, 1.15, 1.2), Verdict.LARGER),
        (found(0.995, 1.0, 1.005), 0.001, found(1.6, 1.8, 2.0), Verdict.NOTHING),
    ],
)
def test_verdicts(
    interval: Interval | None, aa: float | None, predicted: Interval | None, expected: Verdict
) -> None:
    assert verdict(interval, aa, predicted) is expected


def test_an_interval_of_one_per_cent_on_each_side_is_narrow() -> None:
    assert narrow(found(1.981, 2.0, 2.019))
    assert not narrow(found(1.97, 2.0, 2.02))
    assert not narrow(None)


# ── Does the interval hold what it promises? ────────────────────────────────────────────────────


def host(random: np.random.Generator, arms: int, drift: float, burst: float) -> Float:
    """Draw how much slower a shared machine is in each arm, as logarithm."""
    slow = np.cumsum(random.normal(0, drift, arms))
    at = 0
    while at < arms:
        at += int(random.geometric(0.15))
        many = int(random.geometric(0.5))
        slow[at : at + many] += random.exponential(burst)
        at += many
    return slow


def simulated(
    random: np.random.Generator, effect: float, slow: Float, white: float
) -> tuple[Verdict, Interval, float]:
    """Run a trial on drawn arms, pair by pair, until it is decided."""
    sides = ORDER[: len(slow)]
    every = [
        np.exp(x + random.normal(0, white) - effect * (side == "B") + random.normal(0, 0.02, 10))
        for side, x in zip(sides, slow, strict=True)
    ]
    result = (Verdict.UNDECIDED, Interval(1, 1, 1), 0.0)
    for pairs in range(3, len(slow) // 2 + 1):
        places = [(2 * at, 2 * at + 1)[:: 1 if sides[2 * at] == "A" else -1] for at in range(pairs)]
        done = list(zip(sides, every, strict=True))[: 2 * pairs]
        same = [one for of in "AB" for one in alike([arm for side, arm in done if side == of])]
        interval = speedup([(every[a], every[b]) for a, b in places], same)
        aa = noise(same, pairs)
        assert interval is not None
        assert aa is not None
        result = (verdict(interval, aa, None), interval, aa)
        if result[0] is not Verdict.UNDECIDED or narrow(interval):
            break
    return result


FEW_AND_MANY = [30, pytest.param(300, marks=pytest.mark.slow)]


@pytest.mark.parametrize("trials", FEW_AND_MANY)
@pytest.mark.parametrize(
    ("drift", "burst", "white"), [(0.03, 0.3, 0.05), (0.01, 0.1, 0.02), (0.05, 0.0, 0.01)]
)
def test_on_a_noisy_machine_an_edit_that_does_nothing_is_not_called_an_effect(
    drift: float, burst: float, white: float, trials: int
) -> None:
    random = np.random.default_rng(1)
    verdicts = Counter[Verdict]()
    covered, noises = 0, list[float]()
    for _ in range(trials):
        found, interval, aa = simulated(random, 0, host(random, 12, drift, burst), white)
        verdicts[found] += 1
        noises.append(aa)
        covered += interval.low <= 1 <= interval.high
    assert np.median(noises) > 0.015  # it is as noisy as meant
    wrong = trials - verdicts[Verdict.NOTHING] - verdicts[Verdict.UNDECIDED]
    assert wrong <= 0.05 * trials
    assert covered >= 0.93 * trials


@pytest.mark.parametrize("trials", FEW_AND_MANY)
@pytest.mark.parametrize("effect", [math.log(1.1), math.log(0.9)])
def test_on_a_machine_of_some_noise_ten_per_cent_are_seen_within_six_pairs(
    effect: float, trials: int
) -> None:
    random = np.random.default_rng(2)
    right = Verdict.CONFIRMED if effect > 0 else Verdict.WORSE
    verdicts, noises = Counter[Verdict](), list[float]()
    for _ in range(trials):
        found, _, aa = simulated(random, effect, host(random, 12, 0.005, 0.01), 0.01)
        noises.append(aa)
        verdicts[found] += 1
    assert np.median(noises) > 0.008  # not calmer than meant
    assert set(verdicts) <= {right, Verdict.UNDECIDED}
    assert verdicts[Verdict.UNDECIDED] <= 0.2 * trials
