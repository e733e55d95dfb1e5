"""Limit prices to what the account charges to the object of a change.

All of it gone, a step takes what remains: 1 / (1 − share) times as fast. That is the limit of every
gain, however much of a step is charged: near the whole of it, where a small error of the share is a
large one of the gain, as well. It is passed by no more than is stated here: ``SLACK`` of the gain,
and at the upper end of an interval the error that predictions of its family have, of what remains.

Work that is removed by hand leaves its room in caches, memory and the collector to the rest, which
takes so much less. That does not grow with what is removed: of 158 faults planted in trainings of
others, those of a fifth of a step gained as many points more than was charged to them as those of
half of it. So the middle is that of a rest which is 4 % shorter, but no more than ``MAX_AFTERMATH``
times the gain of its own time (a third of 30 such faults passed that), which is the upper end. What
a data set does is timed, in plain steps, while windows and samples tell too much of Python rather
than too little: where processors train it takes 7 % of the rest with it. Fitted to half of the
scripts, this errs by 4.4 points of a step over the other half, and a multiple of the gain by 4.7.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.queries.device_waits import min_step_share
from gapless.model.change import (
    Change,
    CopyChange,
    Drop,
    HostChange,
    LoaderChange,
    Prediction,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Finding
from gapless.model.leaf import DEVICE_WORK
from gapless.pricing.charged import charge_changes
from gapless.replay.predict.calibration import EXPECTED

SLACK: Final = 1.1  # times what all of it would give beyond 1: steps are not all alike
# Of the rest of a step, so much goes with what is removed by hand; timed: with work of a data set,
# where the processors train, too.
REST_SHARE: Final = 0.04
TIMED_REST_SHARE: Final = 0.07
# Times the gain beyond 1 of what goes by hand: its upper end, and its middle at most.
MAX_AFTERMATH: Final = 1.4
# The same, at the upper end, of copies from or to memory of the host that is not pinned: megabytes
# that pass through its caches, and whose pages are made anew, slow what comes behind them. Two such
# copies that were planted cost 1.5 and 2.2 times their own gain.
COPY_AFTERMATH: Final = 2.0
MAX_GAIN: Final = 50.0  # what is charged the whole step, or may be, leaves a fiftieth of it
_VAGUE: Final = (
    "the replay shows no more than the account: the gain is anything from nothing to all of it"
)
_SAMPLE_CACHE: Final = "sample-cache"
_NOTE: Final = "bounded by what the account charges to it"


class GainLimit(Struct, frozen=True):
    """The largest gain, as a speed-up, that what is charged to a change leaves room for."""

    middle: float  # of the low end, too, and of what is said to be worth "at most"
    high: float  # of the upper end


def limit_gain(max_share: float, family: str) -> GainLimit:
    """Return the limits of a gain where so much of a step is charged at most (0 to 1).

    A change without effect shows the error that is usual of its family nevertheless; what is left
    of a step is known as well as that.
    """
    all_of_it = 1 / max(1 / MAX_GAIN, 1 - max_share)
    middle = min(MAX_GAIN, 1 + SLACK * (all_of_it - 1))
    return GainLimit(middle, min(MAX_GAIN, middle / (1 - EXPECTED.get(family, 0.0))))


def goes_altogether(detection: Detection) -> bool:
    """Return whether a cause is code of the user's that is no longer run.

    It is left out by hand, or its results are kept: what a data set does no longer leaves its room
    to the rest, whoever removes it.
    """
    return all(request.fix == _SAMPLE_CACHE for request in detection.helps)


def add_aftermath(
    prediction: Prediction, changes: Sequence[Change] = (), *, on_device: bool = False
) -> Prediction:
    """Return the price of a cause that goes altogether, its middle and upper end raised."""
    speedup = prediction.speedup
    if speedup is None:
        return prediction
    mid, high = speedup.mid, speedup.high
    mid = mid if mid <= 1 else _raise_middle(mid, changes, on_device=on_device)
    high = high if high <= 1 else raise_gain(high, max_aftermath(changes))
    return replace(prediction, speedup=replace(speedup, mid=mid, high=high))


def _raise_middle(gain: float, changes: Sequence[Change], *, on_device: bool) -> float:
    """Return a gain with what the rest of a step gains, too."""
    is_timed = not on_device and any(isinstance(change, LoaderChange) for change in changes)
    rest_share = TIMED_REST_SHARE if is_timed else REST_SHARE
    return min(raise_gain(gain), gain / (1 - rest_share))


def max_aftermath(changes: Sequence[Change]) -> float:
    """Return how many times its own gain removing something by hand may give."""
    for change in changes:
        leaves = change.leaves if isinstance(change, Scale) else ()
        if isinstance(change, CopyChange) or any(leaf.startswith("copy.") for leaf in leaves):
            return COPY_AFTERMATH
    return MAX_AFTERMATH


def raise_gain(gain: float, factor: float = MAX_AFTERMATH) -> float:
    """Return a gain, by default its upper end, with what goes beside the time that is removed."""
    return 1 + factor * (gain - 1)


def bound_by_account(
    evidence: Evidence,
    changes: Sequence[Change],
    prediction: Prediction,
    *,
    by_hand: bool = False,
) -> Prediction:
    """Return a prediction that promises no more than the account charges to what is changed.

    Where the charge is itself known with an interval (occasional work, ranks that differ), its
    upper end counts: ``Charge.max_share`` holds that. Where the gain may be nothing, and its middle
    exceeds the limit, there is no price. What is bounded already stays as it is.
    """
    max_share = charge_changes(evidence, changes).max_share
    limit, speedup = limit_gain(max_share, prediction.family), prediction.speedup
    if by_hand:
        limit = GainLimit(
            _raise_middle(limit.middle, changes, on_device=evidence.has_device),
            raise_gain(limit.high, max_aftermath(changes)),
        )
    bound = prediction.at_most and _cap(prediction.at_most, limit)
    if speedup is not None and speedup.low <= 1 < limit.middle < speedup.mid:
        return replace(prediction, speedup=None, refused=_VAGUE)
    limit = _limit_by_device(evidence, changes, limit)
    if speedup is None or (speedup.mid <= limit.middle and speedup.high <= limit.high):
        return prediction if bound == prediction.at_most else replace(prediction, at_most=bound)
    notes = prediction.notes
    if speedup.low > limit.middle:
        notes += (
            f"{_NOTE}: at most {limit.middle:.2f}×, where its replay said {speedup.mid:.2f}×",
        )
    return replace(prediction, speedup=_cap(speedup, limit), at_most=bound, notes=notes)


def _limit_by_device(evidence: Evidence, changes: Sequence[Change], limit: GainLimit) -> GainLimit:
    """Return limits whose middle leaves a step as long as its device works.

    Only where nothing of that work changes: steps that are not all alike are as long all the same.
    """
    keeps_work = all(
        isinstance(change, LoaderChange)
        or (
            isinstance(change, Drop | HostChange)
            and not any(leaf.startswith(DEVICE_WORK) for leaf in change.leaves)
        )
        for change in changes
    )
    step_share = min_step_share(evidence) if keeps_work else 0.0
    return replace(limit, middle=min(limit.middle, 1 / step_share)) if step_share else limit


def bound_finding(evidence: Evidence, finding: Finding) -> Finding:
    """Return a finding, its price bounded: the last thing done to each, whatever priced it."""
    detection = finding.detection
    prediction = bound_by_account(
        evidence, detection.changes, finding.prediction, by_hand=goes_altogether(detection)
    )
    return replace(finding, prediction=prediction)


def _cap(estimate: Estimate, limit: GainLimit) -> Estimate:
    return Estimate(
        min(estimate.low, limit.middle),
        min(estimate.mid, limit.middle),
        min(estimate.high, limit.high),
    )
