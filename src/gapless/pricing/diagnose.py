"""Findings: what the rules detect in a run, each with price and line; and what is left to gain."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.declare.rule import Rule
from gapless.catalogue.rules import RULES
from gapless.model.edit import short_path
from gapless.model.evidence import Evidence
from gapless.model.finding import (
    Abstention,
    Detection,
    Diagnosis,
    Finding,
    StepVerdict,
)
from gapless.pricing.bounding import bound_finding
from gapless.pricing.contested import mark_contested
from gapless.pricing.locate import place
from gapless.pricing.nested import drop_callers, drop_yielding, take_line_prices
from gapless.pricing.ordering import order_findings
from gapless.pricing.price import LEAST_GAIN, Prices
from gapless.pricing.simulators.late_rank import name_late_rank
from gapless.pricing.upper_bounds import is_worth_saying, price_or_bound
from gapless.pricing.words.activities import describe_host_samples
from gapless.pricing.words.verdict import COMPUTE, MIN_LARGE_SHARE, affected_groups, verdict_of
from gapless.pricing.worth_trying import choose_trials, find_seldom, name_by_account

_UNCHANGEABLE: Final = (COMPUTE, "observer", "unknown", "step")  # owners that no cause explains
_MIN_UNSURE_GAIN: Final = 3 * LEAST_GAIN  # in the middle: what may be worth less is not named


def diagnose(prices: Prices, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Check all rules and price their detections: worth naming, harmless, or not checked."""
    detections, abstentions = run_rules(prices.evidence, rules)
    detections = name_late_rank(prices.evidence, detections, rules)
    priced_findings = [price_or_bound(prices, detection) for detection in detections]
    bounded_findings = [bound_finding(prices.evidence, finding) for finding in priced_findings]
    all_findings = mark_contested(take_line_prices(bounded_findings, prices.evidence.step_ns))
    nameable_findings = [
        finding if is_worth_saying(finding) else name_by_account(prices, finding)
        for finding in all_findings
    ]
    candidate_findings = [finding for finding in nameable_findings if finding is not None]
    named_findings = drop_callers(drop_yielding(candidate_findings), prices.evidence)
    other_findings = [
        finding
        for finding in all_findings
        if not any(finding.detection is named_finding.detection for named_finding in named_findings)
    ]
    candidates = choose_trials(prices, other_findings)
    tried_findings = [candidate.finding for candidate in candidates]
    findings = order_findings(named_findings, prices.evidence)
    likely = [candidate.finding for candidate in candidates if candidate.odds is not None]
    verdict = _add_open_owner(
        verdict_of(prices.evidence, (*findings, *likely)), (*findings, *likely), other_findings
    )
    diagnosis = Diagnosis(
        findings=findings,
        present=tuple(
            sorted(
                (finding for finding in other_findings if finding not in tried_findings),
                key=_finding_order,
            )
        ),
        abstentions=tuple(abstentions),
        provisional=prices.provisional,
        fidelity=prices.simulator.fidelity,
        min_gain=LEAST_GAIN,
        to_try=candidates,
        verdict=verdict,
        seldom=find_seldom(prices, other_findings),
    )
    outlook = None if findings else describe_outlook(diagnosis, prices.evidence)
    return replace(diagnosis, outlook=outlook)


def run_rules(
    evidence: Evidence, rules: Sequence[Rule]
) -> tuple[list[Detection], list[Abstention]]:
    """Return what the rules detect in a run. A rule that raises is a bug of ours."""
    statements = [statement for rule in rules for statement in rule(evidence)]
    detections = [statement for statement in statements if isinstance(statement, Detection)]
    return [place(detection, evidence) for detection in detections], [
        statement for statement in statements if isinstance(statement, Abstention)
    ]


def _finding_order(finding: Finding) -> tuple[float, float, str]:
    """Order by the low end of the gain; unpriced findings come last."""
    speedup = finding.prediction.speedup
    if speedup is None:
        return (0.0, 0.0, finding.detection.code)
    return (-speedup.low, -speedup.mid, finding.detection.code)


def describe_outlook(diagnosis: Diagnosis, evidence: Evidence) -> str | None:
    """Describe why a step takes as long as it does, where no certain cause was found."""
    verdict = diagnosis.verdict
    if verdict is None:
        return None
    if words := _describe_uncertain(diagnosis, verdict.owner):
        return f"{verdict.sentence}; {words}"
    if verdict.owner == COMPUTE:
        return f"{verdict.sentence}; nothing was found that makes it slower than it has to be"
    if verdict.owner == "host" and (sample_lines := describe_host_samples(evidence)):
        return f"{verdict.sentence}{sample_lines}"
    unchecked = _describe_unchecked(evidence, diagnosis.abstentions)
    return f"{verdict.sentence}; nothing was found that could be changed about it{unchecked}"


def _describe_uncertain(diagnosis: Diagnosis, owner: str) -> str | None:
    """Describe the first cause that is not certain: likely, seen too seldom, or of vague worth.

    Of those of vague worth, one that concerns the ``owner`` of most of the step comes first.
    """
    for candidate in diagnosis.to_try:
        if candidate.odds is not None:
            return f"the likeliest cause: {name_cause(candidate.finding.detection)}"
    for finding in diagnosis.seldom:
        return f"{name_cause(finding.detection)} was {finding.bound_text}"
    own_cause = _find_unsure(_select_concerning(owner, diagnosis.present))
    if own_cause is not None:
        return f"{name_cause(own_cause)} may be part of it"
    cause = _find_unsure(diagnosis.present)
    return None if cause is None else f"a possible cause: {name_cause(cause)}"


def _add_open_owner(
    verdict: StepVerdict | None, shown: Sequence[Finding], other_findings: Sequence[Finding]
) -> StepVerdict | None:
    """Return the verdict; if causes are shown, but none of what takes most, it says so."""
    if (
        verdict is None
        or not shown
        or verdict.named
        or verdict.owner in _UNCHANGEABLE
        or verdict.share < MIN_LARGE_SHARE
    ):
        return verdict
    unsure = _find_unsure(_select_concerning(verdict.owner, other_findings))
    words = (
        "nothing sure was found that could be changed about that"
        if unsure is None
        else f"{name_cause(unsure, verdict.sentence)} may be part of that"
    )
    return replace(verdict, sentence=f"{verdict.sentence}; {words}")


def _select_concerning(owner: str, findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if owner in affected_groups(finding.detection.changes)]


def _find_unsure(findings: Sequence[Finding]) -> Detection | None:
    """Return the surest cause of those that are worth something in the middle of their interval."""
    lows = {
        index: speedup.low
        for index, finding in enumerate(findings)
        if (speedup := finding.prediction.speedup) is not None
        and speedup.mid - 1 >= _MIN_UNSURE_GAIN
    }
    surest = max(lows, key=lambda index: lows[index], default=None)
    return None if surest is None else findings[surest].detection


def name_cause(detection: Detection, sentence: str = "") -> str:
    """Return the name of a cause, with its place or line unless a sentence has named it."""
    if detection.place is not None:
        return f"{detection.name} {detection.place}"
    location = detection.location
    line = "" if location is None else f"{short_path(location.file)}:{location.line}"
    is_named = re.search(rf"(?<![\w.]){re.escape(line)}(?!\d)", sentence) is not None
    return detection.name if not line or is_named else f"{detection.name} ({line})"


def _describe_unchecked(evidence: Evidence, abstentions: Sequence[Abstention]) -> str:
    """Describe how many rules could not be checked, and what they need in a foreign trace."""
    n_rules = len({abstention.code for abstention in abstentions})
    if evidence.is_trace_only and n_rules:
        return f" ({n_rules} rules need a run that gapless recorded)"
    rules_text = "a rule" if n_rules == 1 else f"{n_rules} rules"
    return f" ({rules_text} could not be checked)" if n_rules else ""
