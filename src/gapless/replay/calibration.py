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
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from gapless.model.change import Predicted
from gapless.model.interval import Interval

FEWEST: Final = 20  # residuals that back a family
NOMINAL: Final = 0.9
NARROWEST: Final = 0.005  # half of an interval, in logarithms: none is held to be more exact
EXPECTED: Final[Mapping[str, float]] = {  # shares of the step's time, to both sides
    "sync": 0.015,
    "tail": 0.015,
    "copy": 0.02,
    "host": 0.03,
    "feed": 0.03,
    "comm": 0.03,
    "kernel": 0.05,
}
_MOST: Final = 0.98  # of a step that may be gained
_LEAST_FACTOR: Final = 0.5  # wide intervals that always held are made narrower, down to this
_TABLE: Final = "residuals.json"


@dataclass(frozen=True)
class Residual:
    """How far off one prediction was."""

    family: str  # of the change: "feed", "sync" …
    training: str  # the kind of training: all of one kind are left out together
    score: float


@cache
def committed() -> tuple[Residual, ...]:
    """Give the residuals that gapless comes with."""
    text = files("gapless.replay").joinpath(_TABLE).read_text(encoding="utf-8")
    return tuple(Residual(family, kind, score) for family, kind, score in json.loads(text))


def score(predicted: Interval, measured: float) -> float:
    """Give the residual of a prediction whose speed-up was measured."""
    off = math.log(measured / predicted.mid)
    below, above = halves(predicted)
    return abs(off) / (above if off > 0 else below)


def halves(found: Interval) -> tuple[float, float]:
    """Give both halves of an interval, in logarithms."""
    below, above = math.log(found.mid / found.low), math.log(found.high / found.mid)
    return max(NARROWEST, below), max(NARROWEST, above)


def factor_of(scores: Sequence[float]) -> float | None:
    """Give what intervals are to be stretched by; ``None`` with too few residuals to tell."""
    if len(scores) < FEWEST:
        return None
    rank = min(len(scores), math.ceil((len(scores) + 1) * NOMINAL))
    return max(_LEAST_FACTOR, sorted(scores)[rank - 1])


def stretched(found: Interval, factor: float) -> Interval:
    """Give an interval with the same middle and both halves stretched."""
    below, above = halves(found)
    low, high = math.exp(-factor * below), math.exp(factor * above)
    return Interval(found.mid * low, found.mid, found.mid * high)


def widened(found: Interval, expected: float) -> Interval:
    """Give an interval that reaches so far to both sides at least, in shares of the step's time.

    What changes nothing is exact.
    """
    if found.low == found.mid == found.high == 1:
        return found
    mid = 1 - 1 / found.mid
    low, high = mid - expected, min(mid + expected, _MOST)
    return Interval(min(found.low, 1 / (1 - low)), found.mid, max(found.high, 1 / (1 - high)))


def calibrate(
    predicted: Predicted, residuals: Sequence[Residual] | None = None, without: str | None = None
) -> Predicted:
    """Give a prediction with the interval that the errors of its family ask for.

    ``residuals``: those that gapless comes with, if not told; ``without``: a kind of training whose
    residuals are not to count, since it is the one that is judged.
    """
    if predicted.speedup is None:
        return predicted
    known = committed() if residuals is None else residuals
    mine = [one for one in known if one.family == predicted.family and one.training != without]
    factor = factor_of([one.score for one in mine])
    reaching = widened(predicted.speedup, EXPECTED.get(predicted.family, 0.0))
    found = reaching if factor is None else stretched(reaching, factor)
    if predicted.speedup.low <= 1:  # what may give nothing still may: past errors do not tell
        found = replace(found, low=min(found.low, predicted.speedup.low))
    if predicted.floor is not None:
        found = replace(found, low=max(found.low, min(predicted.floor, found.mid)))
    return replace(predicted, speedup=found, calibrated=factor is not None)
