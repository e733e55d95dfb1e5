"""What the JSON of a study has of its causes: findings, what is harmless, what was not checked."""

from typing import Any

from msgspec import Struct

from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.finding import Diagnosis, Finding, Measure, TrialCandidate
from gapless.report.documents.from_model import fill


class FindingObject(Struct, frozen=True):
    """A cause that is worth naming; ``speedup``: what removing it would give of a step."""

    code: str
    name: str
    summary: str
    where: Location | None
    cost_ns_per_step: int | None
    speedup: Estimate | None
    calibrated: bool  # the interval is
    confidence: str  # "measured" | "inferred"
    family: str  # of the prediction: "feed", "sync", "host", "copy", "kernel", "tail"
    evidence: tuple[Measure, ...]
    helps: tuple[str, ...]  # fixes, as ``gapless try --fix`` takes them
    no_remedy: str | None  # why none is named
    notes: tuple[str, ...]
    at_most: Estimate | None  # what all of it is worth, where its remedies have to be tried
    share: float | None = None  # of the step, at stake, where it is named by that; else null
    fixes: tuple[str, ...] = ()  # of such a cause: those of ``helps`` that can be tried here


class VerdictObject(Struct, frozen=True):
    """Why a step takes as long as it does: what takes most of it beside computing."""

    sentence: str
    owner: str  # a group of the account; "compute": nothing else takes much
    share: float  # of the step, that the owner has
    named: bool  # a finding, or a likely cause, is about the owner
    ceilings: tuple[str, ...]  # ablations that tell what the owner is worth at the most


class PresentObject(Struct, frozen=True):
    """A pattern that was seen and costs too little, or whose price is not known."""

    code: str
    name: str
    summary: str
    where: Location | None
    speedup: Estimate | None
    unpredicted: str | None  # why its price is not known
    at_most: Estimate | None  # what all of it is worth, where its remedies have to be tried


class ToTryObject(Struct, frozen=True):
    """A cause that is not sure to be worth naming, and worth a trial."""

    code: str
    name: str
    summary: str
    where: Location | None
    share: float  # of the step: what the account charges to what the cause is about
    fixes: tuple[str, ...]  # as ``gapless try --fix`` takes them
    unpredicted: str | None  # why there is no price
    evidence: tuple[Measure, ...]
    speedup: Estimate | None  # where there is one
    odds: float | None  # that it is worth ``least``; null without a price


def diagnosis_keys(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the keys of a diagnosis that it does not have by the same name."""
    return {
        "findings": tuple(map(_finding, diagnosis.findings)),
        "present": tuple(map(_present, diagnosis.present)),
        "to_try": tuple(map(_trial_candidate, diagnosis.to_try)),
        "verdict": diagnosis.verdict and fill(VerdictObject, diagnosis.verdict),
        "least": diagnosis.min_gain,
        "rehearsal": diagnosis.fidelity,
    }


def _finding(finding: Finding) -> FindingObject:
    detection = finding.detection
    return fill(
        FindingObject,
        detection,
        finding.prediction,
        finding,
        where=detection.location,
        cost_ns_per_step=finding.cost_ns,
        confidence="inferred" if detection.inferred else "measured",
        evidence=detection.measures,
        helps=tuple(map(str, detection.helps)),
        fixes=tuple(str(remedy.request) for remedy in finding.remedies),
    )


def _present(finding: Finding) -> PresentObject:
    detection, prediction = finding.detection, finding.prediction
    return fill(
        PresentObject,
        detection,
        prediction,
        where=detection.location,
        unpredicted=prediction.refused,
    )


def _trial_candidate(candidate: TrialCandidate) -> ToTryObject:
    detection, prediction = candidate.finding.detection, candidate.finding.prediction
    return fill(
        ToTryObject,
        detection,
        prediction,
        candidate,
        where=detection.location,
        fixes=tuple(str(remedy.request) for remedy in candidate.remedies),
        unpredicted=prediction.refused,
        evidence=detection.measures,
    )
