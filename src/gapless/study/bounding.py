"""Prices no larger than what the account charges to what is changed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gapless.model.change import Change, Predicted
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.replay.calibration import EXPECTED
from gapless.study.charged import charged

SLACK: Final = 1.1  # times the most that is charged: steps are not all alike
_WHOLE: Final = 0.98  # of a step: from there on nothing is bounded
_VAGUE: Final = "a replay tells no more than the account: anything from nothing to all of it"
_NOTE: Final = "bounded by what the account charges to it"


def bound(seen: Seen, changes: Sequence[Change], predicted: Predicted) -> Predicted:
    """Give a prediction that promises no more than the account charges to what is changed.

    Of one that may be nothing, and whose middle is more than that, the account says as much: then
    there is no price.
    """
    share, speedup = SLACK * charged(seen, changes).most, predicted.speedup
    if share >= _WHOLE or speedup is None:
        return predicted
    most = 1 / (1 - share)
    # Of what changes nothing at all an interval holds what its kind is off by.
    highest = 1 / max(1 - _WHOLE, 1 - share - EXPECTED.get(predicted.family, 0.0))
    if speedup.mid <= most and speedup.high <= highest:
        return predicted
    if speedup.low <= 1 < most < speedup.mid:
        return replace(predicted, speedup=None, refused=_VAGUE)
    notes = predicted.notes
    if speedup.low > most:
        notes += (f"{_NOTE}: at most {most:.2f}×, where its replay said {speedup.mid:.2f}×",)
    capped = Interval(min(speedup.low, most), min(speedup.mid, most), min(speedup.high, highest))
    return replace(predicted, speedup=capped, notes=notes)
