"""Causes without a certain price: those named by what the account charges to them, those to try.

A cause with a price is named if the low end of the gain is worth it. No price can be given where a
change cannot be replayed: threads within workers, say, or windows that do not stand for the run.
What the account charges to the leaves of the cause is known nevertheless, and bounds what is at
stake. A cause with a large share of the step is named by that share, which is never presented as a
gain. A smaller one is worth a trial at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import log
from statistics import NormalDist
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.declare import listing
from gapless.catalogue.declare.fix import changes_nothing
from gapless.model.edit import Applicability, FixRequest
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Finding, Remedy, TrialCandidate
from gapless.pricing.charged import charge_changes
from gapless.pricing.price import LEAST_GAIN, Prices

# of a step: above that a trial is worth asking a person for permission
MIN_ASKED_SHARE: Final = 0.5
MIN_NAMED_SHARE: Final = 0.25  # of a step: a cause with so large a charge is named without a price
_MIN_SELDOM_SHARE: Final = 0.2  # of the recorded steps: what takes so much needs a word
MIN_ODDS: Final = 0.75  # three to one: a trial that asks for nothing costs minutes
MIN_LARGE_ODDS: Final = 0.6  # three to two: the same, where half of the step is at stake
_MIN_VAGUE_SPEEDUP: Final = 1.15  # the middle of a price above which an uncertain cause is named
# This part of what was at stake went in five of six measured trainings (benchmarks/stakes.py).
SURELY_GONE: Final = 0.25
_MAX_STAKE: Final = 0.98  # of a step: a bound that leaves less is none
_MACHINE_CAUSES: Final = (
    "throttled-device",
    "shared-device",
    "taken-processors",
)  # done to the machine
_TAIL: Final = NormalDist().inv_cdf(0.95)  # the ends of a 90 % interval, in standard deviations
_UNASKED: Final = (Applicability.IDENTICAL, Applicability.EQUIVALENT)


def name_by_account(prices: Prices, finding: Finding) -> Finding | None:
    """Name a cause by what the account charges to it; ``None``: too little, or it has a price.

    What others do to the machine is not a cause of the user's. A price that promises little stays,
    and so does an upper bound.
    """
    detection, prediction = finding.detection, finding.prediction
    is_bounded = prediction.at_most is not None or detection.unsure is not None
    if detection.name in _MACHINE_CAUSES or is_bounded or not _is_open(prediction.speedup):
        return None
    share = charge_changes(prices.evidence, detection.changes).own_share
    remedies = tuple(remedies_of(prices.evidence, detection.helps))
    if share < (
        MIN_ASKED_SHARE if _asks_leave(prices.evidence, detection, remedies) else MIN_NAMED_SHARE
    ):
        return None
    return replace(finding, share=share, remedies=remedies)


def find_seldom(prices: Prices, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return causes that were seen too seldom to price, and took much of the recording.

    The largest first. What others do to the machine comes and goes with them.
    """
    shares = [
        (charge_changes(prices.evidence, finding.detection.changes).own_share, finding)
        for finding in findings
        if finding.bound_text is not None and finding.detection.name not in _MACHINE_CAUSES
    ]
    ranked = sorted(shares, key=lambda pair: -pair[0])
    return tuple(finding for share, finding in ranked if share >= _MIN_SELDOM_SHARE)


def _is_open(speedup: Estimate | None) -> bool:
    """Return whether a cause has no price, or one whose middle is far above what its low end is."""
    if speedup is None:
        return True
    return speedup.mid >= _MIN_VAGUE_SPEEDUP and odds_of(speedup, LEAST_GAIN) >= MIN_ODDS


def _asks_leave(evidence: Evidence, detection: Detection, remedies: Sequence[Remedy]) -> bool:
    """Return whether everything that helps against a cause needs permission, or nothing helps."""
    if detection.to_try:
        return True
    if evidence.is_trace_only:
        return not detection.helps and detection.no_remedy is None
    if not remedies:
        return detection.no_remedy is None
    return not any(remedy.applicability in _UNASKED for remedy in remedies)


def value_of(finding: Finding) -> float:
    """Return what a cause is worth at least, as a speed-up, to order causes by.

    For one that is named by its share: what usually goes of a stake of that size. Where remedies
    have to be tried, most of them gave nothing (``pricing.upper_bounds``): such causes come after
    the others.
    """
    speedup, detection = finding.prediction.speedup, finding.detection
    if detection.to_try:
        return 1.0
    low = 0.0 if speedup is None else speedup.low
    if finding.share is None:
        return low
    return max(low, 1 / (1 - SURELY_GONE * min(finding.share, _MAX_STAKE)))


def saved_share(finding: Finding) -> float:
    """Return the share of a step that goes at least without a cause."""
    return 1 - 1 / max(1.0, value_of(finding))


def choose_trials(prices: Prices, findings: Iterable[Finding]) -> tuple[TrialCandidate, ...]:
    """Return the causes worth a trial: likely ones first, then those with most at stake."""
    candidates = [
        candidate
        for finding in findings
        if (candidate := _assess_trial(prices, finding)) is not None
    ]
    return tuple(sorted(candidates, key=_sort_key))


def _sort_key(candidate: TrialCandidate) -> tuple[float, float, str]:
    """Order by the middle of the gain; causes without a price come after, by what is at stake."""
    speedup = candidate.finding.prediction.speedup
    return (
        0.0 if speedup is None else -speedup.mid,
        -candidate.share,
        candidate.finding.detection.code,
    )


def _assess_trial(prices: Prices, finding: Finding) -> TrialCandidate | None:
    """Return the trial for a cause; ``None``: little is at stake, or it is unlikely.

    A cause with an upper bound has been judged by that.
    """
    prediction, detection = finding.prediction, finding.detection
    if prediction.speedup is not None:
        return _assess_likely(prices, finding, prediction.speedup)
    if prediction.at_most is not None:
        return None
    share = charge_changes(prices.evidence, detection.changes).own_share
    remedies = [
        remedy
        for remedy in remedies_of(prices.evidence, detection.helps)
        if share
        >= (
            LEAST_GAIN
            if remedy.applicability in _UNASKED and not detection.to_try
            else MIN_ASKED_SHARE
        )
    ]
    return TrialCandidate(finding, share, tuple(remedies)) if remedies else None


def _assess_likely(prices: Prices, finding: Finding, speedup: Estimate) -> TrialCandidate | None:
    """Return a cause that is likely worth naming, and that has a remedy without permission."""
    odds = odds_of(speedup, LEAST_GAIN)
    share = charge_changes(prices.evidence, finding.detection.changes).own_share
    remedies = [
        remedy
        for remedy in remedies_of(prices.evidence, finding.detection.helps)
        if remedy.applicability in _UNASKED
    ]
    if odds < (MIN_LARGE_ODDS if share >= MIN_ASKED_SHARE else MIN_ODDS) or not remedies:
        return None
    return TrialCandidate(finding, share, tuple(remedies), odds)


def odds_of(speedup: Estimate, min_gain: float) -> float:
    """Return the probability (0 to 1) that a gain is worth at least ``min_gain`` (a share).

    It is that of a log-normal below the middle of the prediction, as wide as its low end
    implies.
    """
    above = log(speedup.mid / (1 + min_gain))
    spread = log(speedup.mid / speedup.low) / _TAIL
    if spread <= 0:
        return 1.0 if above >= 0 else 0.0
    return NormalDist().cdf(above / spread)


def remedies_of(evidence: Evidence, helps: Sequence[FixRequest]) -> Iterator[Remedy]:
    """Return the fixes that would change something here and are not refused."""
    facts = evidence.facts
    if evidence.is_trace_only:
        return
    for request in helps:
        for proposal in listing.propose_requested(request, facts):
            if proposal.refused is None and not changes_nothing(proposal):
                yield Remedy(request, proposal.edits, proposal.applicability)
                break
