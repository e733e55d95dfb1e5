"""Causes and what would help, as cards and rows: line, evidence, predicted and measured gain."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gapless.model.edit import Proposal
from gapless.model.finding import Finding, Measure
from gapless.model.study import Study
from gapless.model.trial import Side
from gapless.page.bars import BarPair, pair_bars, step_groups
from gapless.report.sections.causes import (
    PERMISSION_OPTIONS,
    harmless_lines,
    label,
    try_lines,
    worth,
)
from gapless.report.sections.next_command import fix_spec_of
from gapless.report.sections.remedies import refused_lines, remedy_rows
from gapless.report.sections.trials import ratio_text, words
from gapless.report.text.numbers import count, duration, percent, size
from gapless.report.text.text import clean

_LINE_KINDS: Final = {"+": "added", "-": "removed", "@": "place"}  # of a diff, by first character


class HelpEntry(Struct, frozen=True):
    """A fix against a cause: what it changes, what is predicted of it, what was measured."""

    fix: str
    summary: str
    kind: str  # its class
    predicted: str
    measured: str
    command: str
    risk: str
    diff: tuple[tuple[str, str], ...]  # lines with their class; empty: there is none


class CauseCard(Struct, frozen=True):
    """A cause that is worth naming."""

    code: str
    label: str
    location: str  # the line in full; empty: none is known
    worth: str
    sentence: str
    remarks: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]
    helps: tuple[HelpEntry, ...]


class Diagnosed(Struct, frozen=True):
    """What the page says of causes."""

    cards: tuple[CauseCard, ...]
    rows: tuple[tuple[str, ...], ...]  # what would help, as the report has it
    forecasts: tuple[BarPair, ...]
    to_try: tuple[str, ...]
    refused: tuple[str, ...]
    harmless: tuple[str, ...]
    abstentions: tuple[tuple[str, str], ...]


def diagnose(study: Study, diffs: Mapping[str, Sequence[str]]) -> Diagnosed | None:
    """Lay out what a study concludes; ``None`` if no causes were looked for.

    ``diffs``: what fixes would change in the source, by name, where that is known.
    """
    diagnosis = study.diagnosis
    if diagnosis is None:
        return None
    return Diagnosed(
        cards=tuple(_card(study, finding, diffs) for finding in diagnosis.findings),
        rows=tuple(
            (row.number, row.fix, row.summary, row.location, row.kind, row.step, row.worth)
            for row in remedy_rows(study)
        ),
        forecasts=tuple(_forecasts(study)),
        to_try=tuple(line.removeprefix("worth trying: ") for line in try_lines(diagnosis)),
        refused=tuple(refused_lines(study)),
        harmless=tuple(harmless_lines(diagnosis)),
        abstentions=tuple(
            (f"{abstention.code} {abstention.name}", clean(abstention.reason))
            for abstention in diagnosis.abstentions
        ),
    )


def _card(study: Study, finding: Finding, diffs: Mapping[str, Sequence[str]]) -> CauseCard:
    detection = finding.detection
    location = detection.location
    remarks = [detection.no_remedy, detection.advice, *finding.prediction.notes]
    if detection.inferred:
        remarks.append("inferred: it follows from what was seen, and was not seen itself")
    return CauseCard(
        code=detection.code,
        label=label(finding),
        location="" if location is None else _line_ref(location.file, location.line),
        worth=worth(finding),
        sentence=clean(detection.summary),
        remarks=tuple(dict.fromkeys(clean(remark) for remark in remarks if remark)),
        evidence=tuple(
            (clean(measure.name), _measure_text(measure)) for measure in detection.measures
        ),
        helps=tuple(
            _help(study, proposal, diffs.get(proposal.fix, ()))
            for proposal in study.proposals
            if detection.code in proposal.remedies and proposal.refused is None
        ),
    )


def _line_ref(file: str, line: int) -> str:
    return clean(f"{file}:{line}")


def _measure_text(measure: Measure) -> str:
    value = measure.value
    if isinstance(value, str):
        return clean(value)
    formats = {"ns": duration, "share": percent, "bytes": size}
    if measure.unit in formats:
        return formats[measure.unit](value)
    return f"{count(value)} {clean(measure.unit)}".rstrip()


def _help(study: Study, proposal: Proposal, diff: Sequence[str]) -> HelpEntry:
    option = PERMISSION_OPTIONS.get(proposal.applicability)
    fix_spec = fix_spec_of(study, proposal)
    return HelpEntry(
        fix=fix_spec,
        summary=clean(proposal.summary),
        kind=proposal.applicability.value,
        predicted=_prediction_text(proposal),
        measured=_measured_text(study, proposal.fix),
        command=f"gapless try --fix {fix_spec}{f' {option}' if option else ''}",
        risk=clean(proposal.risk or ""),
        diff=tuple((_LINE_KINDS.get(line[:1], "same"), clean(line)) for line in diff),
    )


def _prediction_text(proposal: Proposal) -> str:
    if proposal.speedup is not None:
        return ratio_text(proposal.speedup)
    if proposal.at_most is not None:
        return f"at most {ratio_text(proposal.at_most)}: {clean(proposal.unpredicted or '')}"
    return f"not predicted: {clean(proposal.unpredicted)}" if proposal.unpredicted else ""


def _measured_text(study: Study, fix: str) -> str:
    """Return what the last trial of a fix by itself has shown; empty if there is none."""
    sides = [side for trial in study.trials for side in trial.sides if _is_of(side, fix)]
    if not sides:
        return ""
    gain = "" if sides[-1].speedup is None else f"{ratio_text(sides[-1].speedup)}, "
    return f"{gain}{words(sides[-1].verdict)}"


def _is_of(side: Side, fix: str) -> bool:
    return [name.partition("=")[0] for name in side.fixes] == [fix]


def _forecasts(study: Study) -> Iterator[BarPair]:
    """Yield what the replay of each applicable proposal says of a step."""
    recorded = study.recorded
    account = study.account if recorded is None else recorded.account and recorded.account.account
    before_ns = step_groups(account)
    for proposal in study.proposals:
        outcome = proposal.outcome
        if proposal.refused is None and outcome is not None and before_ns:
            title = f"with {fix_spec_of(study, proposal)}: {clean(proposal.summary)}"
            captions = "a step now", "predicted"
            yield pair_bars(title, captions, before_ns, outcome.groups)
