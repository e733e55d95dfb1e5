"""From causes to what one does: a row for each with its fix as it is typed, and the next step."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from gapless.model.edit import Applicability, Proposal
from gapless.model.finding import Finding, Verdict
from gapless.model.leaf import PRINTED
from gapless.model.study import Study
from gapless.model.trial import Side
from gapless.report.causes import ALLOWED, NEARLY_ALL, label
from gapless.report.numbers import percent
from gapless.report.text import clean
from gapless.report.trials import FASTER, interval, words

_MOST: Final = 3  # causes of the first screen
_MUCH: Final = 0.25  # of a step: what bounds it is worth a trial of its own
_FEW: Final = 4  # traces that are named one by one
_BY_HAND: Final = "by hand"
_PROVES: Final = "runs it with and without, in turns"


@dataclass(frozen=True)
class Row:
    """A cause of the first screen: what it is, what changing it is worth, and with what."""

    label: str  # "G101 loader-in-training-process train.py:41"
    gain: str
    way: str  # "--fix more-workers=12", "by hand"
    code: str
    detail: str  # what was seen of it


def rows_of(study: Study) -> tuple[Row, ...]:
    """Give the first causes: those that are named, then the likely ones.

    A fix that stands beside a cause stands beside the next one only if nothing else helps there.
    """
    diagnosis = study.diagnosis
    if diagnosis is None:
        return ()
    likely = [(one.finding, ", likely") for one in diagnosis.to_try if one.odds is not None]
    causes = [*((cause, "") for cause in diagnosis.findings), *likely][:_MOST]
    rows: list[Row] = []
    fixes: list[str] = []
    for cause, sure in causes:
        asked, proposal = _fix_of(study, cause, fixes)
        fixes += [] if proposal is None else [proposal.fix]
        rows.append(_row(cause, asked, proposal, sure))
    return tuple(rows)


def _row(one: Finding, asked: str | None, proposal: Proposal | None, sure: str) -> Row:
    way = _BY_HAND if asked is None else f"--fix {asked}"
    if proposal is not None and (allowed := ALLOWED.get(proposal.applicability)):
        way = f"{way} {allowed}"
    priced = proposal.speedup if proposal is not None else None
    gain = _gain(one) if priced is None else interval(priced)
    vague = ", likely" if one.share is not None and "×" in gain and "[" in gain else sure
    by_hand = asked is None and one.loss.no_remedy is not None
    said = clean(one.loss.no_remedy or "") if by_hand else _begun(one.loss.summary)
    detail = said if by_hand or one.loss.told is None else clean(one.loss.told)
    return Row(f"{one.loss.code} {label(one)}", f"{gain}{vague}", way, one.loss.code, detail)


def _begun(summary: str) -> str:
    """Give the first clause of what was seen, without a bracket that does not end in it."""
    clause = clean(summary).partition("; ")[0].rstrip(".")
    return clause if clause.count("(") == clause.count(")") else clause.rpartition(" (")[0]


def _gain(one: Finding) -> str:
    """Say in few words what removing a cause is worth."""
    speedup, most = one.predicted.speedup, one.predicted.at_most
    if speedup is not None:
        return interval(speedup)
    if most is not None:
        return f"at most {most.mid:.1f}×"
    if one.share is None:
        return "not known"
    if one.share > NEARLY_ALL:
        return f"{percent(one.share)} at stake"
    return f"at most {1 / (1 - one.share):.1f}×"


def _fix_of(study: Study, one: Finding, shown: Sequence[str]) -> tuple[str | None, Proposal | None]:
    """Give the fix against a cause as one types it, and the proposal behind it.

    Of several the first that was not ``shown`` beside another cause.
    """
    able = [
        each
        for each in study.proposals
        if each.refused is None
        and one.loss.code in each.remedies
        and (each.speedup is None or each.speedup.mid > 1)
    ]
    for each in sorted(able, key=lambda proposal: proposal.fix in shown)[:1]:
        return _named(each, one.loss.helps), each
    for remedy in one.remedies[:1]:
        made = Proposal(remedy.fix, "", remedy.edits, remedy.applicability)
        return remedy.asked, made
    return None, None


def typed(study: Study, proposal: Proposal) -> str:
    """Give a proposal as ``gapless try --fix`` takes it, with its value."""
    found = study.diagnosis
    causes = () if found is None else (*found.findings, *(one.finding for one in found.to_try))
    helps = [
        text for one in causes if one.loss.code in proposal.remedies for text in one.loss.helps
    ]
    return _named(proposal, helps)


def _named(proposal: Proposal, helps: Sequence[str]) -> str:
    named = (text for text in helps if text.partition("=")[0].partition("@")[0] == proposal.fix)
    return next(named, proposal.fix)


# ── Trials, and what to do next ─────────────────────────────────────────────────────────────────


def proven_lines(study: Study) -> Iterator[str]:
    """Say what trials of the run have shown: what helps, what the most is, what was not proven."""
    sides = [one for trial in study.trials for one in trial.sides if one.check is None]
    fixes = [one for one in sides if one.applicability is not Applicability.TRIAL]
    better = [one for one in fixes if one.verdict in FASTER and one.speedup is not None]
    if better:
        best = max(better, key=_middle)
        yield f"proven: {_tried(best)}"
    elif fixes:
        yield f"tried, and not proven to help: {_tried(fixes[-1])} ({words(fixes[-1].verdict)})"
    most = [one for one in sides if one not in fixes and one.speedup is not None]
    if most:
        yield f"measured: if it went altogether, at most: {_tried(max(most, key=_middle))}"


def _middle(side: Side) -> float:
    return 0.0 if side.speedup is None else side.speedup.mid


def _tried(side: Side) -> str:
    gain = "" if side.speedup is None else f" {interval(side.speedup)}"
    return f"{clean(' + '.join(side.fixes))}{gain}"


def next_step(study: Study) -> tuple[str, str]:
    """Give the one command to type next, and what it does."""
    found = study.diagnosis
    why = found.verdict if found is not None else None
    rows = rows_of(study)
    if study.recorded is None:
        return _of_trace(study, rows)
    tried = {name for trial in study.trials for side in trial.sides for name in side.fixes}
    open_ = why is not None and bool(why.ceilings) and not tried & set(why.ceilings)
    if why is not None and open_ and not why.named and why.share >= _MUCH:
        return _ceilings(why)
    left = [one for one in rows if not _was_tried(one, tried)]
    if left and left[0].way != _BY_HAND:
        return f"gapless try {left[0].way}", _PROVES
    if left:
        return f"gapless explain {left[0].code}", "what it is, and what to do about it"
    if why is not None and open_:
        return _ceilings(why)
    return _looks(study, why)


def _was_tried(row: Row, tried: set[str]) -> bool:
    name = row.way.removeprefix("--fix ").partition(" ")[0]
    return bool({name, name.partition("=")[0]} & tried)


def _ceilings(why: Verdict) -> tuple[str, str]:
    what = PRINTED[why.owner]
    return "gapless try --ceilings", f"measures how fast a step is at the most without {what}"


def _of_trace(study: Study, rows: Sequence[Row]) -> tuple[str, str]:
    if rows:
        return f"gapless explain {rows[0].code}", "what it is, and what to do about it"
    idle = {leaf: ns for leaf, ns in study.account.leaves.items() if not leaf.startswith("busy.")}
    largest = max(idle, key=lambda leaf: idle[leaf], default=None)
    if largest is None or idle[largest] < 0.1 * study.account.wall_ns:
        return f"{_open(study)} --section kernels", "what computes"
    return f"{_open(study)} --leaf {largest}", "the longest of it, and what is to blame"


def _open(study: Study) -> str:
    """Give the command that opens the same traces again; of many the folders that they lie in."""
    paths = study.run.paths
    folders = tuple(dict.fromkeys(str(PurePath(path).parent) for path in paths))
    return f"gapless open {shlex.join(paths if len(paths) <= _FEW else folders)}"


def _looks(study: Study, why: Verdict | None) -> tuple[str, str]:
    """Give the part of the report that tells most of what takes the time."""
    recorded = study.recorded
    if why is None or recorded is None or why.owner == "step":
        return "gapless report --section unseen", "what was not recorded, and why"
    if why.owner == "compute":
        table = "kernels" if study.tables.kernels else "operators"
        return f"gapless report --section {table}", "what computes, and for how long"
    if why.owner == "data":
        return "gapless report --section loaders", "how batches are made, and waited for"
    return "gapless report --section lines", "your lines and functions, and what each takes"
