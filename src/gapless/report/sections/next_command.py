"""From causes to actions: a row for each with its fix as it is typed, and the next step."""

import shlex
from collections.abc import Iterator, Sequence
from posixpath import dirname  # of URLs as of paths
from typing import Final

from msgspec import Struct

from gapless.model.edit import Applicability, FixRequest, Proposal
from gapless.model.finding import Finding, StepVerdict
from gapless.model.leaf import PRINTED
from gapless.model.run import RecordedRun
from gapless.model.study import Study
from gapless.model.trial import FASTER, Side
from gapless.report.sections.causes import NEARLY_WHOLE, PERMISSION_OPTIONS, label, sharing_command
from gapless.report.sections.trials import ratio_text, words
from gapless.report.text.numbers import percent
from gapless.report.text.text import clean

_MAX_CAUSES: Final = 3  # causes of the first screen
_MIN_CEILING_SHARE: Final = 0.25  # of a step: its bound is worth a trial of its own
_MAX_TRACES: Final = 4  # traces that are named one by one
_BY_HAND: Final = "by hand"
# Reading, decoding, augmenting, tokenising, collating, handing over: causes that other ways remedy.
_CODES_OF_STAGES: Final = frozenset({"G106", "G107", "G108", "G109", "G110", "G111"})
_CODE_WORDS: Final = frozenset({"torch", "numpy", "gapless"})  # written small wherever they stand
_PROVES: Final = "runs it with and without, in turns"


class CauseRow(Struct, frozen=True):
    """A cause of the first screen: what it is, what changing it is worth, and how to change it."""

    label: str  # "G101 loader-in-training-process train.py:41"
    gain: str
    way: str  # "--fix more-workers=12", "by hand"
    code: str
    detail: str  # its evidence
    is_seldom: bool = False  # it was seen too seldom to price: its detail says so
    asks: bool = False  # the fix needs a permission
    worth: float = 0.0  # of the fix, the middle; 0: it is not predicted


def cause_rows(study: Study) -> tuple[CauseRow, ...]:
    """Return the first causes: those that are named, the likely ones, then the largest seldom one.

    A fix shown with a cause is shown with a later one only if nothing else helps there.
    """
    diagnosis = study.diagnosis
    if diagnosis is None:
        return ()
    likely = [
        (candidate.finding, ", likely")
        for candidate in diagnosis.to_try
        if candidate.odds is not None
    ]
    causes = [*((cause, "") for cause in diagnosis.findings), *likely][:_MAX_CAUSES]
    rows: list[CauseRow] = []
    fixes: list[str] = []
    for cause, likelihood in causes:
        fix_spec, proposal = _fix_of(study, cause, fixes)
        fixes += [] if proposal is None else [proposal.fix]
        rows.append(_row(cause, fix_spec, proposal, likelihood))
    rows += [_seldom_row(cause) for cause in diagnosis.seldom[:1]]
    return tuple(rows)


def _seldom_row(finding: Finding) -> CauseRow:
    """Return the row of what was seen too seldom to know what it takes of a step."""
    detection = finding.detection
    advice = f" {clean(detection.no_remedy)}" if detection.no_remedy else ""
    return CauseRow(
        f"{detection.code} {label(finding)}",
        _gain(finding),
        _BY_HAND,
        detection.code,
        f"{clean(detection.summary)}{advice}",
        is_seldom=True,
    )


def _row(
    finding: Finding, fix_spec: str | None, proposal: Proposal | None, likelihood: str
) -> CauseRow:
    way_text = _BY_HAND if fix_spec is None else f"--fix {fix_spec}"
    if proposal is not None and (option := PERMISSION_OPTIONS.get(proposal.applicability)):
        way_text = f"{way_text} {option}"
    speedup = proposal.speedup if proposal is not None else None
    gain = _gain(finding) if speedup is None else ratio_text(speedup)
    qualifier = (
        ", likely" if finding.share is not None and "×" in gain and "[" in gain else likelihood
    )
    is_by_hand = fix_spec is None and finding.detection.no_remedy is not None
    finding_text = (
        clean(finding.detection.no_remedy or "")
        if is_by_hand
        else _first_clause(finding.detection.summary)
    )
    detail = (
        finding_text
        if is_by_hand or finding.detection.advice is None
        else clean(finding.detection.advice)
    )
    return CauseRow(
        f"{finding.detection.code} {label(finding)}",
        f"{gain}{qualifier}",
        way_text,
        finding.detection.code,
        _begin_sentence(detail),
        asks=proposal is not None and proposal.applicability in PERMISSION_OPTIONS,
        worth=0.0 if speedup is None else speedup.mid,
    )


def _begin_sentence(text: str) -> str:
    """Return advice with a capital letter, unless it begins with a name of code."""
    word = text.partition(" ")[0]
    return text if word in _CODE_WORDS or not word.isalpha() else text[:1].upper() + text[1:]


def _first_clause(summary: str) -> str:
    """Return the first clause of a sentence, without a bracket that does not end in it."""
    clause = clean(summary).partition("; ")[0].rstrip(".")
    return clause if clause.count("(") == clause.count(")") else clause.rpartition(" (")[0]


def _gain(finding: Finding) -> str:
    """Describe in few words what removing a cause is worth."""
    speedup, bound = finding.prediction.speedup, finding.prediction.at_most
    if speedup is not None:
        return ratio_text(speedup)
    if bound is not None:
        return f"at most {bound.mid:.1f}×"
    if finding.share is None:
        return "not known"
    if finding.share > NEARLY_WHOLE:
        return f"{percent(finding.share)} at stake"
    return f"at most {1 / (1 - finding.share):.1f}×"


def _fix_of(
    study: Study, finding: Finding, shown_fixes: Sequence[str]
) -> tuple[str | None, Proposal | None]:
    """Return the fix against a cause as one types it, and the proposal behind it.

    Of several the first that is not in ``shown_fixes``, shown with another cause; of one fix at
    several places the one that gives most, as the command changes all of them.
    """
    applicable = [
        proposal
        for proposal in study.proposals
        if proposal.refused is None
        and finding.detection.code in proposal.remedies
        and (proposal.speedup is None or proposal.speedup.mid > 1)
    ]
    for first in sorted(applicable, key=lambda candidate: candidate.fix in shown_fixes)[:1]:
        places = [other for other in applicable if _is_elsewhere(first, other)]
        best = max((first, *places), key=_find_gain)
        return _find_fix_spec(best, finding.detection.helps), best
    for remedy in finding.remedies[:1]:
        remedy_proposal = Proposal(remedy.request.fix, "", remedy.edits, remedy.applicability)
        return str(remedy.request), remedy_proposal
    return None, None


def _is_elsewhere(proposal: Proposal, other: Proposal) -> bool:
    """Return whether another proposal is the same fix at another place."""
    return (
        (other.fix, other.value) == (proposal.fix, proposal.value)
        and other.location is not None
        and other.location != proposal.location
    )


def _find_gain(proposal: Proposal) -> float:
    return 0.0 if proposal.speedup is None else proposal.speedup.mid


def fix_spec_of(study: Study, proposal: Proposal) -> str:
    """Return a proposal as ``gapless try --fix`` takes it, with its value."""
    diagnosis = study.diagnosis
    causes = (
        ()
        if diagnosis is None
        else (*diagnosis.findings, *(candidate.finding for candidate in diagnosis.to_try))
    )
    requests = [
        request
        for cause in causes
        if cause.detection.code in proposal.remedies
        for request in cause.detection.helps
    ]
    return _find_fix_spec(proposal, requests)


def _find_fix_spec(proposal: Proposal, requests: Sequence[FixRequest]) -> str:
    matches = [request for request in requests if request.fix == proposal.fix]
    matches.sort(key=lambda request: request.value != proposal.value)
    return str(matches[0]) if matches else proposal.fix


# ── Trials, and what to do next ─────────────────────────────────────────────────────────────────


def proven_lines(study: Study) -> Iterator[str]:
    """Describe what trials of the run have shown: what helps, upper bounds, what was not proven."""
    sides = [side for trial in study.trials for side in trial.sides]
    fixes = [side for side in sides if side.applicability is not Applicability.ABLATION]
    better = [side for side in fixes if side.verdict in FASTER and side.speedup is not None]
    if better:
        best = max(better, key=_mid_speedup)
        yield f"proven: {_fix_gain(best)}"
    elif fixes:
        yield f"tried, and not proven to help: {_fix_gain(fixes[-1])} ({words(fixes[-1].verdict)})"
    bounds = [side for side in sides if side not in fixes and side.speedup is not None]
    if bounds:
        best_bound = _fix_gain(max(bounds, key=_mid_speedup))
        yield f"measured: if it were removed altogether, at most: {best_bound}"


def _mid_speedup(side: Side) -> float:
    return 0.0 if side.speedup is None else side.speedup.mid


def _fix_gain(side: Side) -> str:
    gain = "" if side.speedup is None else f" {ratio_text(side.speedup)}"
    return f"{clean(' + '.join(side.fixes))}{gain}"


def next_step(study: Study) -> tuple[str, str]:
    """Return the one command to type next, and what it does."""
    diagnosis = study.diagnosis
    verdict = diagnosis.verdict if diagnosis is not None else None
    rows = cause_rows(study)
    if study.recorded is None:
        return _next_of_trace(study, rows)
    tried_fixes = {name for trial in study.trials for side in trial.sides for name in side.fixes}
    has_open_ceilings = (
        verdict is not None and bool(verdict.ceilings) and not tried_fixes & set(verdict.ceilings)
    )
    if (
        verdict is not None
        and has_open_ceilings
        and not verdict.named
        and verdict.share >= _MIN_CEILING_SHARE
    ):
        return _ceilings(verdict)
    untried = [row for row in rows if not _is_tried(row, tried_fixes)]
    if untried:
        return _next_of_cause(_select_row(untried), study.recorded)
    if verdict is not None and has_open_ceilings:
        return _ceilings(verdict)
    sharing = sharing_command(study)
    if sharing is not None:
        return sharing, _PROVES
    return _section_command(study, verdict)


def _select_row(rows: Sequence[CauseRow]) -> CauseRow:
    """Return the first row; where its fix needs a permission, one that gives more without any."""
    first = rows[0]
    freely = [row for row in rows if row.worth > first.worth and not row.asks]
    return freely[0] if first.asks and freely else first


def _next_of_cause(row: CauseRow, recorded: RecordedRun) -> tuple[str, str]:
    """Return how to prove its fix; of a slow stage by hand, how to see what else it could be."""
    if row.way != _BY_HAND:
        return f"gapless try {row.way}", _PROVES
    if row.code in _CODES_OF_STAGES and _has_loader(recorded):
        return "gapless data", "what each stage costs on your own samples, and other ways to do it"
    return f"gapless explain {row.code}", "what it is, and what to do about it"


def _has_loader(recorded: RecordedRun) -> bool:
    """Return whether a DataLoader, and nothing in its place, was gone through."""
    return any(not use.settings.get("stands_in") for use in recorded.loaders if use.waits)


def _is_tried(row: CauseRow, tried_fixes: set[str]) -> bool:
    name = row.way.removeprefix("--fix ").partition(" ")[0]
    return bool({name, name.partition("=")[0]} & tried_fixes)


def _ceilings(verdict: StepVerdict) -> tuple[str, str]:
    group = PRINTED[verdict.owner]
    return "gapless try --ceilings", f"measures how fast a step is at most without {group}"


def _next_of_trace(study: Study, rows: Sequence[CauseRow]) -> tuple[str, str]:
    if rows:
        return f"gapless explain {rows[0].code}", "what it is, and what to do about it"
    idle = {leaf: ns for leaf, ns in study.account.leaves.items() if not leaf.startswith("busy.")}
    largest = max(idle, key=lambda leaf: idle[leaf], default=None)
    if largest is None or idle[largest] < 0.1 * study.account.wall_ns:
        return f"{_open_command(study)} --section kernels", "what computes"
    return f"{_open_command(study)} --leaf {largest}", "the longest of it, and what is to blame"


def _open_command(study: Study) -> str:
    """Return the command that opens the same traces again; for many, their folders."""
    paths = study.run.paths
    folders = tuple(dict.fromkeys(dirname(path) or "." for path in paths))
    return f"gapless open {shlex.join(paths if len(paths) <= _MAX_TRACES else folders)}"


def _section_command(study: Study, verdict: StepVerdict | None) -> tuple[str, str]:
    """Return the part of the report that shows most about what takes the time."""
    recorded = study.recorded
    if verdict is None or recorded is None or verdict.owner == "step":
        return "gapless report --section unseen", "what was not recorded, and why"
    if verdict.owner == "compute":
        table = "kernels" if study.tables.kernels else "operators"
        return f"gapless report --section {table}", "what computes, and for how long"
    if verdict.owner == "data":
        return "gapless report --section loaders", "how batches are made, and waited for"
    return "gapless report --section lines", "your lines and functions, and what each takes"
