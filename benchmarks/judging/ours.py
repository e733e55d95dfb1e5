"""What gapless says of a record, as the same kind of answer that every tool gives."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.judging.answers import Answer, Recommendation, value_of
from benchmarks.judging.causes import Against, meant
from benchmarks.judging.records import Line, Record
from gapless.errors import UsageError
from gapless.model.change import Change, Predicted
from gapless.model.edit import Applicability, Proposal, as_json, from_json
from gapless.model.finding import Finding, ToTry
from gapless.model.interval import Interval
from gapless.model.study import Study
from gapless.replay.calibration import Residual, halves, score
from gapless.study.concluding import conclude
from gapless.study.price import Prices, price
from gapless.study.propose import foretold

# What others do to the machine: no remedy of the training's, and menus were measured beside it.
_OF_THE_MACHINE: Final = frozenset({"throttled-device", "shared-device", "taken-processors"})


@dataclass(frozen=True)
class Said:
    """What gapless said, and what of it can be checked beside the menu."""

    answer: Answer
    study: Study
    predicted: Mapping[str, Predicted] = field(default_factory=dict[str, Predicted])  # by line


def says(prices: Prices, record: Record) -> Said:
    """Give what gapless says of a record, and what it predicts for each line of the menu."""
    study = conclude(prices)
    diagnosis = study.diagnosis
    if diagnosis is None:
        return Said(Answer(refused="no account could be made of it"), study)
    named = tuple(
        _named(one, study.proposals)
        for one in diagnosis.findings
        if one.loss.name not in _OF_THE_MACHINE
    )
    named += tuple(
        _to_try(one) if one.odds is None else _named(one.finding, study.proposals)
        for one in diagnosis.to_try
    )
    every = (*diagnosis.findings, *diagnosis.present, *(one.finding for one in diagnosis.to_try))
    predicted = {
        line.name: one
        for line in record.lines
        if (one := _predicted(prices, line, every)) is not None
    }
    gains = {name: one.speedup for name, one in predicted.items() if one.speedup is not None}
    return Said(Answer(named, gains), study, predicted)


def _named(found: Finding, proposals: Sequence[Proposal]) -> Recommendation:
    """Put a finding as something to do: its first fix, or the cause by hand.

    What is named by its share of the step has the fixes that are likeliest to help beside it.
    """
    loss = found.loss
    mine = [one for one in proposals if loss.code in one.remedies and one.refused is None]
    first = next(iter((*found.remedies, *mine)), None)
    tried = "" if found.share is None else ", to be tried"
    return Recommendation(
        fix=None if first is None else first.fix,
        value=None if first is None else value_of(tuple(map(as_json, first.edits))),
        causes=meant(loss.name),
        says=f"{loss.code} {loss.name}{tried}: {loss.summary}",
        speedup=found.predicted.speedup,
    )


def _to_try(one: ToTry) -> Recommendation:
    """Put a cause that too little hangs on to be named as something to do, behind all findings."""
    loss, first = one.finding.loss, one.remedies[0]
    return Recommendation(
        fix=first.fix,
        value=value_of(tuple(map(as_json, first.edits))),
        causes=meant(loss.name),
        says=f"{loss.code} {loss.name}, to be tried: {loss.summary}",
    )


def _predicted(prices: Prices, line: Line, every: Iterable[Finding]) -> Predicted | None:
    """Predict what a line of the menu gives; ``None`` where nothing was found that it is about."""
    if line.fix is None:
        changes = _changes(line.against, every)
        return price(prices, changes) if changes else None
    edits = tuple(from_json(dict(edit)) for edit in line.edits)
    try:
        return foretold(prices, [Proposal(line.fix, line.name, edits, Applicability.RISKY)])
    except UsageError:
        return None


def _changes(against: Against, every: Iterable[Finding]) -> tuple[Change, ...]:
    """Give what removes some causes, together; nothing if one of them was not found."""
    found = [(meant(one.loss.name), one.loss.changes) for one in every if not one.loss.to_try]
    if any(not any(cause & names for names, _ in found) for cause in against):
        return ()
    return tuple(
        change
        for names, changes in found
        if any(cause & names for cause in against)
        for change in changes
    )


def residuals(said: Said, record: Record) -> list[Residual]:
    """Give how far off the predictions of a record were, where its menu can tell.

    What was measured more roughly than it was predicted says nothing of that: its distance is the
    measurement's own noise. Ceilings do not count either: nobody is told what they would give, and
    one batch again and again stays in the processors' caches, too.
    """
    known = {
        one.name: one.speedup
        for one in record.lines
        if one.rough and one.speedup is not None and not one.ceiling
    }
    return [
        Residual(one.family, record.kind, round(score(found, known[name].mid), 4))
        for name, one in said.predicted.items()
        if (found := one.speedup) is not None and name in known and _tells(known[name], found)
    ]


def _tells(measured: Interval, predicted: Interval) -> bool:
    """Tell whether a measurement is as exact as the prediction that it is to judge."""
    return max(halves(measured)) <= max(halves(predicted))
