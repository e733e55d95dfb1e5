"""What gapless says of a record, as the same kind of answer that every tool gives."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.judging.answers import Answer, Recommendation, value_of
from benchmarks.judging.causes import Against, causes_named
from benchmarks.judging.records import MenuLine, Record
from gapless.errors import UsageError
from gapless.model.change import Change, Prediction
from gapless.model.edit import Applicability, Proposal, edit_from_json, edit_to_json
from gapless.model.estimate import Estimate
from gapless.model.finding import Finding, Remedy, TrialCandidate
from gapless.model.study import Study
from gapless.pricing.conclude import conclude
from gapless.pricing.price import Prices, price_changes
from gapless.pricing.propose import predict_together
from gapless.replay.predict.calibration import Residual, halves, score_prediction

# What others do to the machine: no remedy of the training's, and menus were measured beside it.
_MACHINE_CAUSES: Final = frozenset({"throttled-device", "shared-device", "taken-processors"})


@dataclass(frozen=True)
class CheckedAnswer:
    """What gapless said, and what of it can be checked beside the menu."""

    answer: Answer
    study: Study
    predicted: Mapping[str, Prediction] = field(default_factory=dict[str, Prediction])  # by line


def ask_gapless(prices: Prices, record: Record) -> CheckedAnswer:
    """Return what gapless says of a record, and what it predicts for each line of the menu."""
    study = conclude(prices)
    diagnosis = study.diagnosis
    if diagnosis is None:
        return CheckedAnswer(Answer(refused="no account could be made of it"), study)
    recommendations = tuple(
        _recommend_finding(finding, study.proposals)
        for finding in diagnosis.findings
        if finding.detection.name not in _MACHINE_CAUSES
    )
    recommendations += tuple(
        _recommend_trial(candidate)
        if candidate.odds is None
        else _recommend_finding(candidate.finding, study.proposals)
        for candidate in diagnosis.to_try
    )
    findings = (
        *diagnosis.findings,
        *diagnosis.present,
        *(candidate.finding for candidate in diagnosis.to_try),
    )
    predictions = {
        line.name: prediction
        for line in record.lines
        if (prediction := _predict_line(prices, line, findings)) is not None
    }
    gains = {
        name: prediction.speedup
        for name, prediction in predictions.items()
        if prediction.speedup is not None
    }
    return CheckedAnswer(Answer(recommendations, gains), study, predictions)


def _recommend_finding(finding: Finding, proposals: Sequence[Proposal]) -> Recommendation:
    """Put a finding as something to do: its first fix, or the cause by hand.

    What is named by its share of the step has the fixes that are likeliest to help beside it.
    """
    detection = finding.detection
    proposed = [
        proposal
        for proposal in proposals
        if detection.code in proposal.remedies and proposal.refused is None
    ]
    remedy = next(iter((*finding.remedies, *proposed)), None)
    trial_note = "" if finding.share is None else ", to be tried"
    return Recommendation(
        fix=None if remedy is None else _fix_name(remedy),
        value=None if remedy is None else value_of(tuple(map(edit_to_json, remedy.edits))),
        causes=causes_named(detection.name),
        says=f"{detection.code} {detection.name}{trial_note}: {detection.summary}",
        speedup=finding.prediction.speedup,
    )


def _fix_name(remedy: Remedy | Proposal) -> str:
    return remedy.request.fix if isinstance(remedy, Remedy) else remedy.fix


def _recommend_trial(candidate: TrialCandidate) -> Recommendation:
    """Put a cause that too little hangs on to be named as something to do, behind all findings."""
    detection, remedy = candidate.finding.detection, candidate.remedies[0]
    return Recommendation(
        fix=_fix_name(remedy),
        value=value_of(tuple(map(edit_to_json, remedy.edits))),
        causes=causes_named(detection.name),
        says=f"{detection.code} {detection.name}, to be tried: {detection.summary}",
    )


def _predict_line(prices: Prices, line: MenuLine, findings: Iterable[Finding]) -> Prediction | None:
    """Predict what a line of the menu gives; ``None`` where nothing was found that it is about."""
    if line.fix is None:
        changes = _changes_against(line.against, findings)
        return price_changes(prices, changes) if changes else None
    edits = tuple(edit_from_json(dict(edit)) for edit in line.edits)
    try:
        return predict_together(prices, [Proposal(line.fix, line.name, edits, Applicability.RISKY)])
    except UsageError:
        return None


def _changes_against(against: Against, findings: Iterable[Finding]) -> tuple[Change, ...]:
    """Return what removes some causes, together; nothing if one of them was not found."""
    removals = [
        (causes_named(finding.detection.name), finding.detection.changes)
        for finding in findings
        if not finding.detection.to_try
    ]
    if any(not any(cause & names for names, _ in removals) for cause in against):
        return ()
    return tuple(
        change
        for names, changes in removals
        if any(cause & names for cause in against)
        for change in changes
    )


def residuals(checked: CheckedAnswer, record: Record) -> list[Residual]:
    """Return how far off the predictions of a record were, where its menu can tell.

    What was measured more roughly than it was predicted says nothing of that: its distance is the
    measurement's own noise. Ceilings do not count either: nobody is told what they would give, and
    one batch again and again stays in the processors' caches, too.
    """
    speedups = {
        line.name: line.speedup
        for line in record.lines
        if line.rough and line.speedup is not None and not line.ceiling
    }
    return [
        Residual(
            prediction.family, record.kind, round(score_prediction(speedup, speedups[name].mid), 4)
        )
        for name, prediction in checked.predicted.items()
        if (speedup := prediction.speedup) is not None
        and name in speedups
        and _is_exact_enough(speedups[name], speedup)
    ]


def _is_exact_enough(measured: Estimate, predicted: Estimate) -> bool:
    """Return whether a measurement is as exact as the prediction that it is to judge."""
    return max(halves(measured)) <= max(halves(predicted))
