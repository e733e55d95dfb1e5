"""Causes in words: what each costs, what is harmless, how well the replay behind it holds."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from gapless.model.edit import Applicability, Where
from gapless.model.finding import Diagnosis, Finding, Rehearsal, Remedy, ToTry, Verdict
from gapless.model.interval import Interval
from gapless.report.numbers import duration, percent
from gapless.report.text import clean
from gapless.report.trials import interval

_FEW: Final = 5  # harmless patterns that are listed
_LITTLE: Final = 0.02  # of a step: who gains less has lost nothing
_WIDE: Final = 3 * _LITTLE  # a pattern that may be worth more is not harmless
ALLOWED: Final = {Applicability.RISKY: "--risky", Applicability.MANUAL: "--override"}
NEARLY_ALL: Final = 0.9  # of a step: above it, what is left would be no bound that tells much
_CHECKED: Final = 6  # codes of rules that could not be checked


def why_line(found: Verdict) -> str:
    """Say why a step takes as long as it does."""
    return f"{clean(found.sentence)}."


def first_lines(found: Diagnosis) -> Iterator[str]:
    """Say why a step takes as long as it does, and name the most valuable cause."""
    if found.verdict is not None:
        yield why_line(found.verdict)
    if found.findings:
        first, *more = found.findings
        rest = f" · {len(more)} more cause{'s' if len(more) > 1 else ''} below" if more else ""
        yield f"cause: {', '.join(_names(first))}; {_worth_of(first)}{rest}"
    elif found.verdict is None and found.outlook is not None:
        yield clean(found.outlook)


def _worth_of(one: Finding) -> str:
    """Give what removing a cause is worth, as a clause."""
    sure = one.share is None and one.predicted.speedup is not None
    return f"without it {told(one)}" if sure else told(one)


def told(one: Finding) -> str:
    """Give what removing a cause is worth."""
    speedup, most = one.predicted.speedup, one.predicted.at_most
    if most is not None and one.loss.unsure is not None:
        return f"{one.loss.unsure}: at most {most.mid:.2f}× without it"
    if most is not None:
        return f"to be tried: were all of it gone, {interval(most)}"
    if one.share is not None:
        return _at_stake(one, one.share)
    if speedup is None:
        return f"not predicted: {clean(one.predicted.refused or 'no reason is known')}"
    return interval(speedup)


def at_most(share: float) -> str:
    """Say what a share of the step is worth at the most; of nearly all of it that says nothing."""
    if share > NEARLY_ALL:
        return f"{percent(share)} of each step is at stake"
    return f"{percent(share)} of each step is at stake, at most {1 / (1 - share):.1f}×"


def _at_stake(one: Finding, share: float) -> str:
    speedup = one.predicted.speedup
    likely = "" if speedup is None else f"likely {interval(speedup)}; "
    if one.remedies:
        gives = (
            f"what the fix gives is not known before it is tried: {try_command(one.remedies[0])}"
        )
    else:
        gives = "what changing it gives is not known before it is tried"
    return f"{likely}{at_most(share)}; {gives}"


def try_command(remedy: Remedy) -> str:
    """Give the command that tries a fix."""
    allowed = ALLOWED.get(remedy.applicability)
    return " ".join(("gapless try --fix", remedy.asked, *((allowed,) if allowed else ())))


def place(where: Where | None) -> str:
    """Name a line in short: "train.py:41"."""
    return "" if where is None else clean(f"{PurePath(where.file).name}:{where.line}")


def cause_lines(found: Diagnosis) -> Iterator[str]:
    """Give a line for each finding, and below it what was seen."""
    said = () if found.rehearsal is None else found.rehearsal.notes
    for one in found.findings:
        yield f"{' '.join(_names(one))}: {told(one)}{_sure(one)}"
        yield f"  {_sentence(one)}"
        if one.loss.no_remedy is not None:
            yield f"  {clean(one.loss.no_remedy)}"
        for note in one.predicted.notes:
            if note not in said:  # of all windows: it is said once, with the replay
                yield f"  {clean(note)}"


def harmless_lines(found: Diagnosis) -> Iterator[str]:
    """Say of what else was seen that it costs nothing here, or that its price is not known."""
    priced = [(one, one.predicted.speedup) for one in found.present if one.predicted.speedup]
    for one, speedup in priced[:_FEW]:
        yield f"{label(one)}: {_worth(speedup)}"
    if len(priced) > _FEW:
        yield f"{len(priced) - _FEW} more patterns that are worth less"
    for one in found.present:
        most = one.predicted.at_most
        if most is not None and most.high - 1 < found.least:
            yield f"{label(one)}: {_worth(most)}"
        elif one.predicted.speedup is None:
            # What points at no line, and nothing of ours helps against, needs its sentence.
            alone = one.loss.where is None and one.loss.no_remedy and not one.loss.helps
            seen = "" if one.loss.unsure else "seen; "
            yield f"{label(one)}: {f'{_sentence(one)}; ' if alone else seen}{told(one)}"


def try_lines(found: Diagnosis) -> Iterator[str]:
    """Say of what is not sure to be worth it how likely it is, or what is at stake; and the try."""
    for one in found.to_try:
        yield (
            f"worth trying: {' '.join(_names(one.finding))}: {_sentence(one.finding)}; "
            f"{_stake(one, found.least)}: {try_command(one.remedies[0])}"
        )


def _stake(one: ToTry, least: float) -> str:
    predicted = one.finding.predicted
    if one.odds is not None and predicted.speedup is not None:
        return (
            f"without it {interval(predicted.speedup)}, {percent(one.odds)} likely to be worth "
            f"{percent(least)}"
        )
    why = clean(predicted.refused or "it cannot be replayed")
    return (
        f"{percent(one.share)} of a step is at stake, what a fix gives of it is not predicted "
        f"({why})"
    )


def replay_lines(found: Diagnosis | None) -> Iterator[str]:
    """Say how well the unchanged windows are replayed, and what could not be checked."""
    if found is None:
        return
    if found.rehearsal is not None:
        yield from _rehearsed(found.rehearsal)
        if found.rehearsal.refused is not None and any(
            one.predicted.speedup for one in found.findings
        ):
            yield (
                "what has a price without a replay has it by its share of the account, or by what "
                "was seen of its loader"
            )
    if found.provisional:
        yield "fewer than 50 steps: what is found is provisional"
    if found.abstentions:
        codes = list(dict.fromkeys(one.code for one in found.abstentions))
        more = f" and {len(codes) - _CHECKED} more" if len(codes) > _CHECKED else ""
        yield f"not checked: {', '.join(codes[:_CHECKED])}{more} (reasons: --json)"


def _rehearsed(one: Rehearsal) -> Iterator[str]:
    if one.refused is not None:
        yield f"no window is replayed: {clean(one.refused)}"
    parts = list(_figures(one))
    if parts:
        what = "the window" if one.windows <= 1 else f"{one.windows} windows"
        yield f"{what}, replayed unchanged: {' · '.join(parts)}"
    for note in one.notes:
        yield clean(note)


def _figures(one: Rehearsal) -> Iterator[str]:
    if one.imputed is not None:
        yield f"{percent(abs(one.imputed))} off the trace"
    if one.unprofiled is not None:
        yield f"{percent(abs(one.unprofiled))} off un-profiled steps"
    if one.alpha_ns is not None:
        yield f"the profiler costs {duration(one.alpha_ns)} an event"
    if one.unexplained is not None:
        yield f"waits without a reason {percent(one.unexplained)}"


def _names(one: Finding) -> Iterator[str]:
    yield f"{one.loss.code} {one.loss.name}"
    if one.loss.where is not None:
        yield place(one.loss.where)


def label(one: Finding) -> str:
    """Name a cause and its line."""
    where = place(one.loss.where)
    return f"{one.loss.name}{f' {where}' if where else ''}"


def _sentence(one: Finding) -> str:
    return clean(one.loss.summary).rstrip(".")


def _sure(one: Finding) -> str:
    return " (inferred)" if one.loss.inferred else ""


def _worth(found: Interval) -> str:
    """Say that a pattern is harmless, or that it is not known to be worth anything."""
    most = percent(max(0.0, found.high - 1))
    if found.high <= 1:
        return "harmless here: worth nothing"
    if found.high - 1 < _LITTLE:
        return f"harmless here: worth at most {most}"
    if found.mid - 1 < _LITTLE and found.high - 1 < _WIDE:
        return f"likely harmless here: worth at most {most}"
    return f"not surely worth it: {interval(found)}"
