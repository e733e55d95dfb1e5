"""Intervals widened by past errors."""

import json
import math
import random
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.change import Prediction
from gapless.model.estimate import Estimate
from gapless.replay.predict.calibration import (
    EXPECTED,
    MIN_RESIDUALS,
    Residual,
    calibrate,
    factor_of,
    load_residuals,
    score_prediction,
    stretch,
    widen_estimate,
)

TEN = Estimate(1.0, 1.1, 1.21)  # halves of ln 1.1


def residuals(*scores: float, family: str = "feed", training: str = "a") -> list[Residual]:
    return [Residual(family, training, score) for score in scores]


def test_a_residual_is_measured_in_halves_of_the_interval() -> None:
    assert score_prediction(TEN, 1.1) == 0
    assert score_prediction(TEN, 1.21) == pytest.approx(1)
    assert score_prediction(TEN, 1.0) == pytest.approx(1)
    assert score_prediction(TEN, 1.331) == pytest.approx(2)
    assert score_prediction(Estimate(1.0, 1.1, 1.1**3), 1.1**2) == pytest.approx(0.5)


def test_a_point_is_no_reason_to_divide_by_nothing() -> None:
    assert math.isfinite(score_prediction(Estimate(1.1, 1.1, 1.1), 1.2))


def test_too_few_residuals_leave_an_interval_as_it_is() -> None:
    predicted = Prediction(TEN, "feed", calibrated=True)
    too_few = residuals(*[3.0] * (MIN_RESIDUALS - 1))
    assert calibrate(predicted, too_few) == Prediction(TEN, "feed", calibrated=False)


def test_no_interval_is_narrower_than_what_its_family_is_expected_to_be_off() -> None:
    sure = Estimate(1.24, 1.25, 1.26)  # a fifth of the step
    prediction = calibrate(Prediction(sure, "sync"), [])
    assert prediction.speedup is not None
    assert 1 - 1 / prediction.speedup.low == pytest.approx(0.2 - EXPECTED["sync"])
    assert 1 - 1 / prediction.speedup.high == pytest.approx(0.2 + EXPECTED["sync"])
    assert calibrate(Prediction(TEN, "sync"), []).speedup == TEN
    point = Estimate(1.0, 1.0, 1.0)
    assert calibrate(Prediction(point, "kernel"), []).speedup == point
    assert widen_estimate(Estimate(30, 40, 50), 0.05).high == 50


def test_enough_residuals_stretch_both_halves() -> None:
    prediction = calibrate(Prediction(TEN, "feed"), residuals(*[2.0] * MIN_RESIDUALS))
    assert prediction.calibrated
    assert prediction.speedup is not None
    assert prediction.speedup.mid == TEN.mid
    assert prediction.speedup.high == pytest.approx(1.1**3)
    assert prediction.speedup.low == pytest.approx(1 / 1.1)


def test_other_families_and_the_judged_kind_of_training_do_not_count() -> None:
    predicted = Prediction(TEN, "feed")
    picture_residuals = residuals(*[2.0] * MIN_RESIDUALS, training="pictures")
    assert calibrate(predicted, picture_residuals, excluded="pictures").speedup == TEN
    assert calibrate(predicted, picture_residuals, excluded="speech").calibrated
    assert not calibrate(predicted, residuals(*[2.0] * 50, family="copy")).calibrated


def test_what_is_refused_stays_refused() -> None:
    refusal = Prediction(None, "feed", refused="no loader")
    assert calibrate(refusal, residuals(*[2.0] * MIN_RESIDUALS)) == refusal


def test_one_wild_residual_of_twenty_does_not_count_and_three_do() -> None:
    assert factor_of([1.0] * 19 + [50.0]) == 1
    assert factor_of([1.0] * 17 + [50.0] * 3) == 50
    assert factor_of([]) is None


@given(st.floats(0.5, 5), st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0.5, 10))
def test_an_interval_is_stretched_around_its_middle(
    mid: float, below: float, above: float, factor: float
) -> None:
    estimate = stretch(Estimate(mid * math.exp(-below), mid, mid * math.exp(above)), factor)
    assert 0 < estimate.low < estimate.mid == mid < estimate.high


def test_nine_of_ten_new_gains_lie_in_calibrated_intervals() -> None:
    """Errors three times as large as the intervals pretend; truths drawn from the same source."""
    rng = random.Random(1)

    def gain() -> float:
        return 1.1 * math.exp(3 * math.log(1.1) * rng.gauss(0, 1) / 1.645)

    past = residuals(*(score_prediction(TEN, gain()) for _ in range(200)))
    estimate = calibrate(Prediction(TEN, "feed"), past).speedup
    assert estimate is not None
    hits = sum(estimate.low <= gain() <= estimate.high for _ in range(2000))
    assert 0.85 < hits / 2000 < 0.95


def test_the_residuals_that_gapless_comes_with_can_be_read() -> None:
    entries = json.loads(files("gapless.replay").joinpath("residuals.json").read_text())
    assert len(load_residuals()) == len(entries)
    assert all(residual.score >= 0 for residual in load_residuals())


def test_no_end_falls_below_what_processors_do_in_any_case() -> None:
    wide = Prediction(Estimate(0.8, 1.25, 1.9), "feed", floor=0.97)
    estimate = calibrate(wide, []).speedup
    assert estimate is not None
    assert (estimate.low, estimate.mid) == (0.97, 1.25)
    slower = calibrate(Prediction(Estimate(0.8, 0.9, 1.9), "feed", floor=0.97), []).speedup
    assert slower is not None
    assert slower.low == slower.mid == 0.9
