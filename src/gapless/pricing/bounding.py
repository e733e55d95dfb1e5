"""Limit prices to what the account charges to the object of a change."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gapless.model.change import Change, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.pricing.charged import charge_changes
from gapless.replay.predict.calibration import EXPECTED

SLACK: Final = 1.1  # times the largest charge: steps are not all alike
_MAX_STEP_SHARE: Final = 0.98  # of a step: above that nothing is bounded
_VAGUE: Final = (
    "the replay shows no more than the account: the gain is anything from nothing to all of it"
)
_NOTE: Final = "bounded by what the account charges to it"


def bound_by_account(
    evidence: Evidence, changes: Sequence[Change], prediction: Prediction
) -> Prediction:
    """Return a prediction that promises no more than the account charges to what is changed.

    Where the gain may be nothing, and its middle exceeds that limit, there is no price.
    """
    share, speedup = SLACK * charge_changes(evidence, changes).max_share, prediction.speedup
    if share >= _MAX_STEP_SHARE or speedup is None:
        return prediction
    max_speedup = 1 / (1 - share)
    # For a change without effect the interval holds the error that is usual of its kind.
    max_high = 1 / max(1 - _MAX_STEP_SHARE, 1 - share - EXPECTED.get(prediction.family, 0.0))
    if speedup.mid <= max_speedup and speedup.high <= max_high:
        return prediction
    if speedup.low <= 1 < max_speedup < speedup.mid:
        return replace(prediction, speedup=None, refused=_VAGUE)
    notes = prediction.notes
    if speedup.low > max_speedup:
        notes += (f"{_NOTE}: at most {max_speedup:.2f}×, where its replay said {speedup.mid:.2f}×",)
    capped_speedup = Estimate(
        min(speedup.low, max_speedup), min(speedup.mid, max_speedup), min(speedup.high, max_high)
    )
    return replace(prediction, speedup=capped_speedup, notes=notes)
