"""What the JSON of a study has of its causes: findings, what is harmless, what was not checked."""

from dataclasses import dataclass
from typing import Any

from gapless.model.edit import Where
from gapless.model.finding import Diagnosis, Finding, Measure, ToTry
from gapless.model.interval import Interval


@dataclass(frozen=True)
class FindingObject:
    """A cause that is worth naming; ``speedup``: what removing it would give of a step."""

    code: str
    name: str
    summary: str
    where: Where | None
    cost_ns_per_step: int | None
    speedup: Interval | None
    calibrated: bool  # the interval is
    confidence: str  # "measured" | "inferred"
    family: str  # of the prediction: "feed", "sync", "host", "copy", "kernel", "tail"
    evidence: tuple[Measure, ...]
    helps: tuple[str, ...]  # fixes, as ``gapless try --fix`` takes them
    no_remedy: str | None  # why none is named
    notes: tuple[str, ...]
    at_most: Interval | None  # what all of it is worth, where its remedies have to be tried
    share: float | None = None  # of the step, at stake, where it is named by that; else null
    fixes: tuple[str, ...] = ()  # of such a cause: those of ``helps`` that can be tried here


@dataclass(frozen=True)
class VerdictObject:
    """Why a step takes as long as it does: what takes most of it beside computing."""

    sentence: str
    owner: str  # a group of the account; "compute": nothing else takes much
    share: float  # of the step, that the owner has
    named: bool  # a finding, or a likely cause, is about the owner
    ceilings: tuple[str, ...]  # ablations that tell what the owner is worth at the most


@dataclass(frozen=True)
class PresentObject:
    """A pattern that was seen and costs too little, or whose price is not known."""

    code: str
    name: str
    summary: str
    where: Where | None
    speedup: Interval | None
    unpredicted: str | None  # why its price is not known
    at_most: Interval | None  # what all of it is worth, where its remedies have to be tried


@dataclass(frozen=True)
class ToTryObject:
    """A cause that is not sure to be worth naming, and worth a trial."""

    code: str
    name: str
    summary: str
    where: Where | None
    share: float  # of the step: what the account charges to what the cause is about
    fixes: tuple[str, ...]  # as ``gapless try --fix`` takes them
    unpredicted: str | None  # why there is no price
    evidence: tuple[Measure, ...]
    speedup: Interval | None  # where there is one
    odds: float | None  # that it is worth ``least``; null without a price


def diagnosis_keys(found: Diagnosis | None) -> dict[str, Any]:
    """Give the keys of a diagnosis; none where causes were not looked for."""
    if found is None:
        return {}
    return {
        "findings": tuple(map(_finding, found.findings)),
        "present": tuple(map(_present, found.present)),
        "to_try": tuple(map(_to_try, found.to_try)),
        "abstentions": found.abstentions,
        "outlook": found.outlook,
        "verdict": None if found.verdict is None else VerdictObject(**vars(found.verdict)),
        "provisional": found.provisional,
        "least": found.least,
        "rehearsal": found.rehearsal,
    }


def _finding(one: Finding) -> FindingObject:
    loss, predicted = one.loss, one.predicted
    return FindingObject(
        code=loss.code,
        name=loss.name,
        summary=loss.summary,
        where=loss.where,
        cost_ns_per_step=one.cost_ns,
        speedup=predicted.speedup,
        calibrated=predicted.calibrated,
        confidence="inferred" if loss.inferred else "measured",
        family=predicted.family,
        evidence=loss.evidence,
        helps=loss.helps,
        no_remedy=loss.no_remedy,
        notes=predicted.notes,
        at_most=predicted.at_most,
        share=one.share,
        fixes=tuple(remedy.asked for remedy in one.remedies),
    )


def _present(one: Finding) -> PresentObject:
    loss, predicted = one.loss, one.predicted
    return PresentObject(
        code=loss.code,
        name=loss.name,
        summary=loss.summary,
        where=loss.where,
        speedup=predicted.speedup,
        unpredicted=predicted.refused,
        at_most=predicted.at_most,
    )


def _to_try(one: ToTry) -> ToTryObject:
    loss = one.finding.loss
    return ToTryObject(
        code=loss.code,
        name=loss.name,
        summary=loss.summary,
        where=loss.where,
        share=one.share,
        fixes=tuple(remedy.asked for remedy in one.remedies),
        unpredicted=one.finding.predicted.refused,
        evidence=loss.evidence,
        speedup=one.finding.predicted.speedup,
        odds=one.odds,
    )
