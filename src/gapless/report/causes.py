"""Causes in words: what each costs, what is harmless, how well the replay behind it holds."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from gapless.model.edit import Applicability, Location
from gapless.model.finding import Diagnosis, Finding, ReplayFidelity, Remedy, TrialCandidate, StepVerdict
from gapless.model.interval import Estimate
from gapless.report.numbers import duration, percent
from gapless.report.text import clean
from gapless.report.trials import ratio_text

_MAX_HARMLESS: Final = 5  # harmless patterns that are listed
_MIN_GAIN: Final = 0.02  # of a step: who gains less has lost nothing
_MAX_HARMLESS_GAIN: Final = 3 * _MIN_GAIN  # a pattern that may be worth more is not harmless
PERMISSION_OPTIONS: Final = {Applicability.RISKY: "--risky", Applicability.MANUAL: "--override"}
NEARLY_WHOLE: Final = 0.9  # of a step: above it, what is left would be no bound that tells much
_MAX_CODES: Final = 6  # codes of rules that could not be checked


def why_line(verdict: StepVerdict) -> str:
    """Say why a step takes as long as it does."""
    return f"{clean(verdict.sentence)}."


def first_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Say why a step takes as long as it does, and name the most valuable cause."""
    if diagnosis.verdict is not None:
        yield why_line(diagnosis.verdict)
    if diagnosis.findings:
        best, *others_found = diagnosis.findings
        others_text = f" · {len(others_found)} more cause{'s' if len(others_found) > 1 else ''} below" if others_found else ""
        yield f"cause: {', '.join(_names(best))}; {_worth_clause(best)}{others_text}"
    elif diagnosis.verdict is None and diagnosis.outlook is not None:
        yield clean(diagnosis.outlook)


def _worth_clause(finding: Finding) -> str:
    """Return what removing a cause is worth, as a clause."""
    is_sure = finding.share is None and finding.prediction.speedup is not None
    return f"without it {worth(finding)}" if is_sure else worth(finding)


def worth(finding: Finding) -> str:
    """Return what removing a cause is worth."""
    speedup, bound = finding.prediction.speedup, finding.prediction.at_most
    if bound is not None and finding.detection.unsure is not None:
        return f"{finding.detection.unsure}: at most {bound.mid:.2f}× without it"
    if bound is not None:
        return f"to be tried: were all of it gone, {ratio_text(bound)}"
    if finding.share is not None:
        return _stake_of_finding(finding, finding.share)
    if speedup is None:
        return f"not predicted: {clean(finding.prediction.refused or 'no reason is known')}"
    return ratio_text(speedup)


def stake_text(share: float) -> str:
    """Say what a share of the step is worth at the most; of nearly all of it that says nothing."""
    if share > NEARLY_WHOLE:
        return f"{percent(share)} of each step is at stake"
    return f"{percent(share)} of each step is at stake, at most {1 / (1 - share):.1f}×"


def _stake_of_finding(finding: Finding, share: float) -> str:
    speedup = finding.prediction.speedup
    likely = "" if speedup is None else f"likely {ratio_text(speedup)}; "
    if finding.remedies:
        gives = (
            f"what the fix gives is not known before it is tried: {try_line(finding.remedies[0])}"
        )
    else:
        gives = "what changing it gives is not known before it is tried"
    return f"{likely}{stake_text(share)}; {gives}"


def try_line(remedy: Remedy) -> str:
    """Return the command that tries a fix."""
    option = PERMISSION_OPTIONS.get(remedy.applicability)
    return " ".join(("gapless try --fix", remedy.fix_spec, *((option,) if option else ())))


def line_ref(location: Location | None) -> str:
    """Name a line in short: "train.py:41"."""
    return "" if location is None else clean(f"{PurePath(location.file).name}:{location.line}")


def cause_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Return a line for each finding, and below it what was seen."""
    replay_notes = () if diagnosis.fidelity is None else diagnosis.fidelity.notes
    for finding in diagnosis.findings:
        yield f"{' '.join(_names(finding))}: {worth(finding)}{_inferred_mark(finding)}"
        yield f"  {_sentence(finding)}"
        if finding.detection.no_remedy is not None:
            yield f"  {clean(finding.detection.no_remedy)}"
        for note in finding.prediction.notes:
            if note not in replay_notes:  # of all windows: it is said once, with the replay
                yield f"  {clean(note)}"


def harmless_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Say of what else was seen that it costs nothing here, or that its price is not known."""
    priced = [(cause, cause.prediction.speedup) for cause in diagnosis.present if cause.prediction.speedup]
    for cause, speedup in priced[:_MAX_HARMLESS]:
        yield f"{label(cause)}: {_harmless_worth(speedup)}"
    if len(priced) > _MAX_HARMLESS:
        yield f"{len(priced) - _MAX_HARMLESS} more patterns that are worth less"
    for cause in diagnosis.present:
        bound = cause.prediction.at_most
        if bound is not None and bound.high - 1 < diagnosis.min_gain:
            yield f"{label(cause)}: {_harmless_worth(bound)}"
        elif cause.prediction.speedup is None:
            # What points at no line, and nothing of ours helps against, needs its sentence.
            unhelped = cause.detection.location is None and cause.detection.no_remedy and not cause.detection.helps
            prefix = "" if cause.detection.unsure else "seen; "
            yield f"{label(cause)}: {f'{_sentence(cause)}; ' if unhelped else prefix}{worth(cause)}"


def try_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Say of what is not sure to be worth it how likely it is, or what is at stake; and the try."""
    for candidate in diagnosis.to_try:
        yield (
            f"worth trying: {' '.join(_names(candidate.finding))}: {_sentence(candidate.finding)}; "
            f"{_candidate_stake(candidate, diagnosis.min_gain)}: {try_line(candidate.remedies[0])}"
        )


def _candidate_stake(cause: TrialCandidate, min_gain: float) -> str:
    predicted = cause.finding.prediction
    if cause.odds is not None and predicted.speedup is not None:
        return (
            f"without it {ratio_text(predicted.speedup)}, {percent(cause.odds)} likely to be worth "
            f"{percent(min_gain)}"
        )
    why = clean(predicted.refused or "it cannot be replayed")
    return (
        f"{percent(cause.share)} of a step is at stake, what a fix gives of it is not predicted "
        f"({why})"
    )


def replay_lines(diagnosis: Diagnosis | None) -> Iterator[str]:
    """Say how well the unchanged windows are replayed, and what could not be checked."""
    if diagnosis is None:
        return
    if diagnosis.fidelity is not None:
        yield from _fidelity_lines(diagnosis.fidelity)
        if diagnosis.fidelity.refused is not None and any(
            finding.prediction.speedup for finding in diagnosis.findings
        ):
            yield (
                "what has a price without a replay has it by its share of the account, or by what "
                "was seen of its loader"
            )
    if diagnosis.provisional:
        yield "fewer than 50 steps: what is found is provisional"
    if diagnosis.abstentions:
        codes = list(dict.fromkeys(abstention.code for abstention in diagnosis.abstentions))
        more_codes = f" and {len(codes) - _MAX_CODES} more" if len(codes) > _MAX_CODES else ""
        yield f"not checked: {', '.join(codes[:_MAX_CODES])}{more_codes} (reasons: --json)"


def _fidelity_lines(fidelity: ReplayFidelity) -> Iterator[str]:
    if fidelity.refused is not None:
        yield f"no window is replayed: {clean(fidelity.refused)}"
    figures = list(_figures(fidelity))
    if figures:
        windows = "the window" if fidelity.windows <= 1 else f"{fidelity.windows} windows"
        yield f"{windows}, replayed unchanged: {' · '.join(figures)}"
    for note in fidelity.notes:
        yield clean(note)


def _figures(fidelity: ReplayFidelity) -> Iterator[str]:
    if fidelity.imputed is not None:
        yield f"{percent(abs(fidelity.imputed))} off the trace"
    if fidelity.unprofiled is not None:
        yield f"{percent(abs(fidelity.unprofiled))} off un-profiled steps"
    if fidelity.alpha_ns is not None:
        yield f"the profiler costs {duration(fidelity.alpha_ns)} an event"
    if fidelity.unexplained is not None:
        yield f"waits without a reason {percent(fidelity.unexplained)}"


def _names(finding: Finding) -> Iterator[str]:
    yield f"{finding.detection.code} {finding.detection.name}"
    if finding.detection.location is not None:
        yield line_ref(finding.detection.location)


def label(finding: Finding) -> str:
    """Name a cause and its line."""
    location = line_ref(finding.detection.location)
    return f"{finding.detection.name}{f' {location}' if location else ''}"


def _sentence(finding: Finding) -> str:
    return clean(finding.detection.summary).rstrip(".")


def _inferred_mark(finding: Finding) -> str:
    return " (inferred)" if finding.detection.inferred else ""


def _harmless_worth(estimate: Estimate) -> str:
    """Say that a pattern is harmless, or that it is not known to be worth anything."""
    max_gain = percent(max(0.0, estimate.high - 1))
    if estimate.high <= 1:
        return "harmless here: worth nothing"
    if estimate.high - 1 < _MIN_GAIN:
        return f"harmless here: worth at most {max_gain}"
    if estimate.mid - 1 < _MIN_GAIN and estimate.high - 1 < _MAX_HARMLESS_GAIN:
        return f"likely harmless here: worth at most {max_gain}"
    return f"not surely worth it: {ratio_text(estimate)}"
