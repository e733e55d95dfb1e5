"""Prices no larger than what the account charges to what is changed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gapless.model.change import Change, Prediction
from gapless.model.interval import Estimate
from gapless.model.seen import Evidence
from gapless.replay.calibration import EXPECTED
from gapless.study.charged import charge_changes

SLACK: Final = 1.1  # times the most that is charged: steps are not all alike
_MAX_STEP_SHARE: Final = 0.98  # of a step: from there on nothing is bounded
_VAGUE: Final = "a replay tells no more than the account: anything from nothing to all of it"
_NOTE: Final = "bounded by what the account charges to it"


def bound_by_account(evidence: Evidence, changes: Sequence[Change], prediction: Prediction) -> Prediction:
    """Return a prediction that promises no more than the account charges to what is changed.

    Of one that may be nothing, and whose middle is more than that, the account says as much: then
    there is no price.
    """
    share, speedup = SLACK * charge_changes(evidence, changes).max_share, prediction.speedup
    if share >= _MAX_STEP_SHARE or speedup is None:
        return prediction
    max_speedup = 1 / (1 - share)
    # Of what changes nothing at all an interval holds what its kind is off by.
    max_high = 1 / max(1 - _MAX_STEP_SHARE, 1 - share - EXPECTED.get(prediction.family, 0.0))
    if speedup.mid <= max_speedup and speedup.high <= max_high:
        return prediction
    if speedup.low <= 1 < max_speedup < speedup.mid:
        return replace(prediction, speedup=None, refused=_VAGUE)
    notes = prediction.notes
    if speedup.low > max_speedup:
        notes += (f"{_NOTE}: at most {max_speedup:.2f}×, where its replay said {speedup.mid:.2f}×",)
    capped_speedup = Estimate(min(speedup.low, max_speedup), min(speedup.mid, max_speedup), min(speedup.high, max_high))
    return replace(prediction, speedup=capped_speedup, notes=notes)
