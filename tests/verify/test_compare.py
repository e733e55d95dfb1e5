"""Speed-ups, their intervals, the noise of unedited arms, and what is proven."""

import math
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace

from gapless.model.estimate import Estimate
from gapless.model.trial import TrialVerdict
from gapless.verify.arms.compare import (
    arm_noise,
    estimate_noise,
    estimate_speedup,
    explain_doubt,
    is_narrow,
    judge_speedup,
    log_ratios,
    proof_bar,
    student_quantile,
)

Float = npt.NDArray[np.float64]
ORDER = "ABBABAABBAABABBA"


def arm(ms: float, blocks: int = 6) -> Float:
    return np.full(blocks, ms * 1e6)


def make_estimate(low: float, mid: float, high: float) -> Estimate:
    return Estimate(low, mid, high)


def test_equal_pairs_give_their_ratio_with_no_width() -> None:
    estimate = estimate_speedup([(arm(10), arm(8))] * 3)
    assert estimate is not None
    assert (estimate.low, estimate.mid, estimate.high) == pytest.approx((1.25, 1.25, 1.25))


def test_one_pair_gives_no_interval() -> None:
    assert estimate_speedup([(arm(10), arm(5))]) is None
    assert estimate_speedup([]) is None


def test_the_middle_is_the_median_of_the_pairs_and_no_mean() -> None:
    estimate = estimate_speedup([(arm(10), arm(10)), (arm(10), arm(10)), (arm(10), arm(1))])
    assert estimate is not None
    assert estimate.mid == pytest.approx(1.0)
    assert estimate.high > 5


def test_three_pairs_have_a_wider_interval_than_their_extremes() -> None:
    estimate = estimate_speedup([(arm(10), arm(9.9)), (arm(10), arm(10)), (arm(10), arm(10.1))])
    assert estimate is not None
    assert estimate.low < 0.98
    assert estimate.high > 1.02


def test_pairs_that_agree_by_luck_are_no_surer_than_their_blocks() -> None:
    wild_blocks = np.array([6.0, 14, 8, 12, 10, 10]) * 1e6
    estimate = estimate_speedup(
        [(wild_blocks, wild_blocks), (wild_blocks, wild_blocks), (wild_blocks, wild_blocks)]
    )
    assert estimate is not None
    assert estimate.high / estimate.low > 1.1


def test_few_blocks_are_drawn_as_means() -> None:
    estimate = estimate_speedup([(np.array([10e6, 12e6]), np.array([11e6]))] * 3)
    assert estimate is not None
    assert estimate.mid == pytest.approx(1.0)


def test_the_same_arms_give_the_same_interval() -> None:
    random = np.random.default_rng(3)
    pairs = [(random.normal(10, 1, 8), random.normal(9, 1, 8)) for _ in range(4)]
    assert estimate_speedup(pairs) == estimate_speedup(pairs)


def test_arms_of_one_side_that_vary_widen_the_interval_of_pairs_that_agree_by_luck() -> None:
    pairs = [(arm(10), arm(8))] * 3
    pairs_only = estimate_speedup(pairs)
    with_arms = estimate_speedup(pairs, log_ratios([arm(10), arm(12), arm(10)]))
    assert pairs_only is not None
    assert with_arms is not None
    assert pairs_only.high / pairs_only.low == pytest.approx(1.0)
    assert with_arms.high / with_arms.low > 1.2
    assert with_arms.mid == pairs_only.mid


def test_arms_of_one_side_that_agree_narrow_the_interval_of_few_pairs() -> None:
    pairs = [(arm(10), arm(8)), (arm(10), arm(8)), (arm(10.4), arm(8))]
    pairs_only, with_arms = (
        estimate_speedup(pairs),
        estimate_speedup(pairs, log_ratios([arm(10), arm(10.1), arm(10), arm(10.1)])),
    )
    assert pairs_only is not None
    assert with_arms is not None
    assert with_arms.high / with_arms.low < pairs_only.high / pairs_only.low


def test_successive_arms_are_compared_as_logarithms() -> None:
    assert log_ratios([arm(10), arm(20), arm(10)]) == pytest.approx([-math.log(2), math.log(2)])
    assert log_ratios([arm(10)]) == log_ratios([]) == []


def test_noise_needs_two_arms_of_a_side() -> None:
    assert estimate_noise([], 3) is None
    assert estimate_noise([0.1], 0) is None
    assert estimate_noise(log_ratios([arm(10), arm(10)]), 2) == 0


def test_noise_is_the_error_of_the_median_of_so_many_pairs() -> None:
    four_pair_noise = estimate_noise([0.02, -0.02], 4)
    assert four_pair_noise is not None
    assert four_pair_noise == pytest.approx(math.expm1(1.2 * 0.02 / 2))
    assert estimate_noise([0.02, -0.02] * 8, 16) == pytest.approx(four_pair_noise / 2, rel=0.01)


def test_an_arms_own_noise_needs_two_blocks() -> None:
    assert arm_noise(arm(10, 1)) is None
    assert arm_noise(arm(10, 4)) == 0
    varied_noise = arm_noise(np.array([9.0, 11, 9, 11]))
    assert varied_noise is not None
    assert varied_noise > 0.1


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.71), (2, 4.303), (12, 2.179), (15, 2.179), (20, 2.086), (35, 2.042), (500, 1.98)],
)
def test_student_is_that_of_no_more_degrees_than_there_are(freedom: int, expected: float) -> None:
    assert student_quantile(freedom) == expected


def test_the_bar_is_one_per_cent_or_as_many_noises_as_are_demanded() -> None:
    assert proof_bar(0.001) == pytest.approx(math.log(1.01))
    assert proof_bar(0.03) == pytest.approx(math.log(1.03))
    assert proof_bar(0.03, noises=2) == pytest.approx(2 * math.log(1.03))
    assert proof_bar(None) == math.inf


@pytest.mark.parametrize(
    ("measured", "aa_noise", "predicted", "expected"),
    [
        (None, 0.001, None, TrialVerdict.UNDECIDED),
        (make_estimate(1.02, 1.05, 1.08), 0.001, None, TrialVerdict.CONFIRMED),
        (make_estimate(1.02, 1.05, 1.08), 0.03, None, TrialVerdict.UNDECIDED),
        (make_estimate(1.02, 1.05, 1.08), None, None, TrialVerdict.UNDECIDED),
        (make_estimate(0.9, 0.93, 0.97), 0.001, None, TrialVerdict.WORSE),
        (make_estimate(0.995, 1.0, 1.005), 0.001, None, TrialVerdict.NOTHING),
        (
            make_estimate(1.002, 1.004, 1.008),
            0.001,
            None,
            TrialVerdict.NOTHING,
        ),  # it is too small to matter
        (make_estimate(1.002, 1.006, 1.012), 0.001, None, TrialVerdict.UNDECIDED),
        (make_estimate(0.97, 1.0, 1.03), 0.02, None, TrialVerdict.NOTHING),
        (
            make_estimate(0.94, 1.0, 1.03),
            0.02,
            None,
            TrialVerdict.UNDECIDED,
        ),  # 5 % might have been missed
        (make_estimate(0.7, 1.0, 1.4), 0.2, None, TrialVerdict.UNDECIDED),
        (make_estimate(1.3, 1.4, 1.5), 0.01, make_estimate(1.35, 1.6, 2.0), TrialVerdict.CONFIRMED),
        (make_estimate(1.3, 1.4, 1.5), 0.01, make_estimate(1.6, 1.8, 2.0), TrialVerdict.SMALLER),
        (make_estimate(1.3, 1.4, 1.5), 0.01, make_estimate(1.1, 1.15, 1.2), TrialVerdict.LARGER),
        (
            make_estimate(0.995, 1.0, 1.005),
            0.001,
            make_estimate(1.6, 1.8, 2.0),
            TrialVerdict.NOTHING,
        ),
    ],
)
def test_verdicts(
    measured: Estimate | None,
    aa_noise: float | None,
    predicted: Estimate | None,
    expected: TrialVerdict,
) -> None:
    assert judge_speedup(measured, aa_noise, predicted) is expected


def test_an_interval_of_one_per_cent_on_each_side_is_narrow() -> None:
    assert is_narrow(make_estimate(1.981, 2.0, 2.019))
    assert not is_narrow(make_estimate(1.97, 2.0, 2.02))
    assert not is_narrow(None)


# ── Does the interval hold what it promises? ────────────────────────────────────────────────────


def draw_slowness(random: np.random.Generator, n_arms: int, drift: float, burst: float) -> Float:
    """Draw how much slower a shared machine is in each arm, as logarithm."""
    slowness = np.cumsum(random.normal(0, drift, n_arms))
    index = 0
    while index < n_arms:
        index += int(random.geometric(0.15))
        length = int(random.geometric(0.5))
        slowness[index : index + length] += random.exponential(burst)
        index += length
    return slowness


def simulate_trial(
    random: np.random.Generator, effect: float, slowness: Float, white: float
) -> tuple[TrialVerdict, Estimate, float]:
    """Run a trial on drawn arms, pair by pair, until it is decided."""
    sides = ORDER[: len(slowness)]
    arms = [
        np.exp(x + random.normal(0, white) - effect * (side == "B") + random.normal(0, 0.02, 10))
        for side, x in zip(sides, slowness, strict=True)
    ]
    outcome = (TrialVerdict.UNDECIDED, Estimate(1, 1, 1), 0.0)
    for n_pairs in range(3, len(slowness) // 2 + 1):
        index_pairs = [
            (2 * pair, 2 * pair + 1)[:: 1 if sides[2 * pair] == "A" else -1]
            for pair in range(n_pairs)
        ]
        measured_arms = list(zip(sides, arms, strict=True))[: 2 * n_pairs]
        aa_ratios = [
            ratio
            for name in "AB"
            for ratio in log_ratios([arm for side, arm in measured_arms if side == name])
        ]
        estimate = estimate_speedup([(arms[a], arms[b]) for a, b in index_pairs], aa_ratios)
        aa_noise = estimate_noise(aa_ratios, n_pairs)
        assert estimate is not None
        assert aa_noise is not None
        outcome = (judge_speedup(estimate, aa_noise, None), estimate, aa_noise)
        if outcome[0] is not TrialVerdict.UNDECIDED or is_narrow(estimate):
            break
    return outcome


TRIAL_COUNTS = [30, pytest.param(300, marks=pytest.mark.slow)]


@pytest.mark.parametrize("trials", TRIAL_COUNTS)
@pytest.mark.parametrize(
    ("drift", "burst", "white"), [(0.03, 0.3, 0.05), (0.01, 0.1, 0.02), (0.05, 0.0, 0.01)]
)
def test_on_a_noisy_machine_an_edit_that_does_nothing_is_not_called_an_effect(
    drift: float, burst: float, white: float, trials: int
) -> None:
    random = np.random.default_rng(1)
    verdicts = Counter[TrialVerdict]()
    n_covered, noises = 0, list[float]()
    for _ in range(trials):
        verdict, estimate, aa_noise = simulate_trial(
            random, 0, draw_slowness(random, 12, drift, burst), white
        )
        verdicts[verdict] += 1
        noises.append(aa_noise)
        n_covered += estimate.low <= 1 <= estimate.high
    assert np.median(noises) > 0.015  # it is as noisy as meant
    n_wrong = trials - verdicts[TrialVerdict.NOTHING] - verdicts[TrialVerdict.UNDECIDED]
    assert n_wrong <= 1 + 0.02 * trials
    assert n_covered >= 0.93 * trials


@pytest.mark.parametrize("trials", TRIAL_COUNTS)
@pytest.mark.parametrize("effect", [math.log(1.1), math.log(0.9)])
def test_on_a_machine_of_some_noise_ten_per_cent_are_seen_within_six_pairs(
    effect: float, trials: int
) -> None:
    random = np.random.default_rng(2)
    right_verdict = TrialVerdict.CONFIRMED if effect > 0 else TrialVerdict.WORSE
    verdicts, noises = Counter[TrialVerdict](), list[float]()
    for _ in range(trials):
        verdict, _, aa_noise = simulate_trial(
            random, effect, draw_slowness(random, 12, 0.005, 0.01), 0.01
        )
        noises.append(aa_noise)
        verdicts[verdict] += 1
    assert np.median(noises) > 0.008  # not calmer than meant
    assert set(verdicts) <= {right_verdict, TrialVerdict.UNDECIDED}
    assert verdicts[TrialVerdict.UNDECIDED] <= 0.2 * trials


def test_a_gain_that_is_not_proven_says_what_it_lacks() -> None:
    estimate = Estimate(1.11, 1.30, 1.53)
    doubt = explain_doubt(TrialVerdict.UNDECIDED, estimate, 0.13)
    assert doubt is not None
    assert "no less than 1.11× here; proven is only what exceeds 1.13×" in doubt
    assert explain_doubt(TrialVerdict.UNDECIDED, replace(estimate, low=0.99), 0.13) is None
    assert explain_doubt(TrialVerdict.CONFIRMED, estimate, 0.01) is None
    doubt = explain_doubt(TrialVerdict.UNDECIDED, replace(estimate, low=1.004), 0.0)
    assert doubt == "no less than 1.004× here; proven is only what exceeds 1.01×"
