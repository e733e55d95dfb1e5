"""Split-conformal widening: an interval is made as wide as the errors of its kind were.

An interval is first made to reach as far as edits of its family are expected to be off
(``EXPECTED``, set by hand). A residual is how far a measured gain lay from the middle of such an
interval, in units of the interval's own half on that side, in logarithms of speed-ups. Of n
residuals of a family the ⌈(n + 1) · 0.9⌉-th smallest is the factor by which both halves of a new
interval are stretched (Romano, Patterson & Candès, *Conformalized Quantile Regression*, 2019, with
a factor in place of a summand). The residuals come from trainings whose edits were measured:
``benchmarks/accuracy.py`` writes them. A family that fewer than 20 of them back is not calibrated.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.model.change import Prediction
from gapless.model.estimate import Estimate

MIN_RESIDUALS: Final = 20  # residuals that back a family
NOMINAL: Final = 0.9
MIN_HALF: Final = 0.005  # half of an interval, in logarithms: none is assumed to be more exact
EXPECTED: Final[Mapping[str, float]] = {  # shares of the step's time, to both sides
    "sync": 0.015,
    "tail": 0.015,
    "copy": 0.02,
    "host": 0.03,
    "feed": 0.03,
    "comm": 0.03,
    "kernel": 0.05,
}
_MAX_GAIN: Final = 0.98  # of a step that may be gained
_MIN_FACTOR: Final = 0.5  # wide intervals that always held are made narrower, down to this
_TABLE: Final = "residuals.json"


class Residual(Struct, frozen=True):
    """How far off one prediction was."""

    family: str  # of the change: "feed", "sync" …
    training: str  # the kind of training: all of one kind are left out together
    score: float


@cache
def load_residuals() -> tuple[Residual, ...]:
    """Return the residuals that gapless comes with."""
    text = files("gapless.replay").joinpath(_TABLE).read_text(encoding="utf-8")
    return tuple(Residual(family, kind, score) for family, kind, score in json.loads(text))


def score_prediction(predicted: Estimate, measured: float) -> float:
    """Return the residual of a prediction whose speed-up was measured."""
    off = math.log(measured / predicted.mid)
    below, above = halves(predicted)
    return abs(off) / (above if off > 0 else below)


def halves(estimate: Estimate) -> tuple[float, float]:
    """Return both halves of an interval, in logarithms."""
    below, above = math.log(estimate.mid / estimate.low), math.log(estimate.high / estimate.mid)
    return max(MIN_HALF, below), max(MIN_HALF, above)


def factor_of(scores: Sequence[float]) -> float | None:
    """Return the factor by which to stretch intervals; ``None`` with too few residuals."""
    if len(scores) < MIN_RESIDUALS:
        return None
    rank = min(len(scores), math.ceil((len(scores) + 1) * NOMINAL))
    return max(_MIN_FACTOR, sorted(scores)[rank - 1])


def stretch(estimate: Estimate, factor: float) -> Estimate:
    """Return an interval with the same middle and both halves stretched."""
    below, above = halves(estimate)
    low, high = math.exp(-factor * below), math.exp(factor * above)
    return Estimate(estimate.mid * low, estimate.mid, estimate.mid * high)


def widen_estimate(estimate: Estimate, expected: float) -> Estimate:
    """Return an interval that reaches so far to both sides at least, in shares of the step's time.

    What changes nothing is exact.
    """
    if estimate.low == estimate.mid == estimate.high == 1:
        return estimate
    mid = 1 - 1 / estimate.mid
    low, high = mid - expected, min(mid + expected, _MAX_GAIN)
    return Estimate(
        min(estimate.low, 1 / (1 - low)), estimate.mid, max(estimate.high, 1 / (1 - high))
    )


def calibrate(
    predicted: Prediction, residuals: Sequence[Residual] | None = None, excluded: str | None = None
) -> Prediction:
    """Return a prediction with the interval that the errors of its family require.

    ``residuals``: by default those that gapless comes with; ``excluded``: a kind of training whose
    residuals do not count, since it is the one being judged.
    """
    if predicted.speedup is None:
        return predicted
    candidates = load_residuals() if residuals is None else residuals
    family_residuals = [
        residual
        for residual in candidates
        if residual.family == predicted.family and residual.training != excluded
    ]
    factor = factor_of([residual.score for residual in family_residuals])
    wide = widen_estimate(predicted.speedup, EXPECTED.get(predicted.family, 0.0))
    estimate = wide if factor is None else stretch(wide, factor)
    if predicted.speedup.low <= 1:  # what may give nothing still may: past errors do not show that
        estimate = replace(estimate, low=min(estimate.low, predicted.speedup.low))
    if predicted.floor is not None:
        estimate = replace(estimate, low=max(estimate.low, min(predicted.floor, estimate.mid)))
    return replace(predicted, speedup=estimate, calibrated=factor is not None)
