"""Causes in words: what each costs, what is harmless, how well the replay behind it fits."""

from collections.abc import Iterator
from typing import Final

from gapless.model.edit import Applicability, Location, short_path
from gapless.model.estimate import Estimate
from gapless.model.finding import (
    Diagnosis,
    Finding,
    Remedy,
    ReplayFidelity,
    StepVerdict,
    TrialCandidate,
)
from gapless.model.study import Study
from gapless.report.sections.trials import ratio_text
from gapless.report.text.numbers import duration, percent
from gapless.report.text.text import clean

_MAX_HARMLESS: Final = 5  # harmless patterns that are listed
_MIN_GAIN: Final = 0.02  # of a step: a smaller gain counts as harmless
_MAX_HARMLESS_GAIN: Final = 3 * _MIN_GAIN  # a pattern that may be worth more is not harmless
PERMISSION_OPTIONS: Final = {Applicability.RISKY: "--risky", Applicability.MANUAL: "--override"}
NEARLY_WHOLE: Final = 0.9  # of a step: above it, the bound would be meaningless
_MAX_CODES: Final = 6  # codes of rules that could not be checked
_SHARING_CAUSE: Final = "taken-processors"


def why_line(verdict: StepVerdict) -> str:
    """State why a step takes as long as it does."""
    return f"{clean(verdict.sentence)}."


def first_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """State why a step takes as long as it does, and name the most valuable cause."""
    if diagnosis.verdict is not None:
        yield why_line(diagnosis.verdict)
    if diagnosis.findings:
        best, *others_found = diagnosis.findings
        others_text = (
            f" · {len(others_found)} more cause{'s' if len(others_found) > 1 else ''} below"
            if others_found
            else ""
        )
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
    if finding.bound_text is not None:
        return f"{finding.bound_text} without it"
    if bound is not None:
        return f"to be tried: if all of it were gone, {ratio_text(bound)}"
    if finding.share is not None:
        return _stake_of_finding(finding, finding.share)
    if speedup is None:
        return f"not predicted: {clean(finding.prediction.refused or 'no reason is known')}"
    return ratio_text(speedup)


def stake_text(share: float) -> str:
    """State what a share of the step is worth at most; for nearly all of it there is no bound."""
    if share > NEARLY_WHOLE:
        return f"{percent(share)} of each step is at stake"
    return f"{percent(share)} of each step is at stake, at most {1 / (1 - share):.1f}×"


def _stake_of_finding(finding: Finding, share: float) -> str:
    speedup = finding.prediction.speedup
    likely = "" if speedup is None else f"likely {ratio_text(speedup)}; "
    if finding.remedies:
        gives = (
            f"the gain of the fix is not known before it is tried: {try_line(finding.remedies[0])}"
        )
    else:
        gives = "the gain of a change is not known before it is tried"
    return f"{likely}{stake_text(share)}; {gives}"


def try_line(remedy: Remedy) -> str:
    """Return the command that tries a fix."""
    option = PERMISSION_OPTIONS.get(remedy.applicability)
    return " ".join(("gapless try --fix", str(remedy.request), *((option,) if option else ())))


def sharing_command(study: Study) -> str | None:
    """Return the trial of fewer threads where others leave too few processors, if not made."""
    tried_fixes = {name for trial in study.trials for side in trial.sides for name in side.fixes}
    requests = (
        request
        for cause in (() if study.diagnosis is None else study.diagnosis.present)
        if cause.detection.name == _SHARING_CAUSE
        for request in cause.detection.helps
        if request.fix not in tried_fixes
    )
    return next((f"gapless try --fix {request}" for request in requests), None)


def line_ref(location: Location | None) -> str:
    """Format a line briefly: "train.py:41"."""
    return "" if location is None else clean(f"{short_path(location.file)}:{location.line}")


def cause_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Return a line for each finding, and below it what was seen; what is seldom comes last."""
    replay_notes = () if diagnosis.fidelity is None else diagnosis.fidelity.notes
    for finding in (*diagnosis.findings, *diagnosis.seldom):
        yield f"{' '.join(_names(finding))}: {worth(finding)}{_inferred_mark(finding)}"
        yield f"  {_sentence(finding)}"
        if finding.detection.no_remedy is not None:
            yield f"  {clean(finding.detection.no_remedy)}"
        for note in finding.prediction.notes:
            if note not in replay_notes:  # about all windows: shown once, with the replay
                yield f"  {clean(note)}"


def harmless_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Describe the other patterns: they cost nothing here, or their price is not known."""
    priced = [
        (cause, cause.prediction.speedup) for cause in diagnosis.present if cause.prediction.speedup
    ]
    for cause, speedup in priced[:_MAX_HARMLESS]:
        yield f"{label(cause)}: {_harmless_worth(speedup)}"
    if len(priced) > _MAX_HARMLESS:
        yield f"{len(priced) - _MAX_HARMLESS} more patterns that are worth less"
    for cause in diagnosis.present:
        if cause in diagnosis.seldom:
            continue
        bound = cause.prediction.at_most
        if bound is not None and bound.high - 1 < diagnosis.min_gain:
            yield f"{label(cause)}: {_harmless_worth(bound)}"
        elif cause.detection.name == _SHARING_CAUSE and cause.detection.helps:
            yield f"{label(cause)}: {_sentence(cause)}"  # sharing_command is the next one
        elif cause.prediction.speedup is None:
            # A cause without a line and without a remedy of ours needs its sentence.
            unhelped = (
                cause.detection.location is None
                and cause.detection.no_remedy
                and not cause.detection.helps
            )
            prefix = "" if cause.detection.unsure else "seen; "
            yield f"{label(cause)}: {f'{_sentence(cause)}; ' if unhelped else prefix}{worth(cause)}"


def try_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Describe uncertain causes: how likely they are, or what is at stake, and how to try."""
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
        f"{percent(cause.share)} of a step is at stake, the gain of a fix is not predicted ({why})"
    )


def replay_lines(diagnosis: Diagnosis | None) -> Iterator[str]:
    """Describe how well the unchanged windows are replayed, and what could not be checked."""
    if diagnosis is None:
        return
    if diagnosis.fidelity is not None:
        yield from _fidelity_lines(diagnosis.fidelity)
        if diagnosis.fidelity.refused is not None and any(
            finding.prediction.speedup for finding in diagnosis.findings
        ):
            yield (
                "prices without a replay rest on the share of the account, or on what was seen of "
                "the loader"
            )
    if diagnosis.provisional:
        yield "fewer than 50 steps: findings are provisional"
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
        yield f"unexplained waits {percent(fidelity.unexplained)}"


def _names(finding: Finding) -> Iterator[str]:
    yield f"{finding.detection.code} {finding.detection.name}"
    if finding.detection.location is not None:
        yield line_ref(finding.detection.location)
    if finding.detection.rank is not None:
        yield f"on rank {finding.detection.rank}"
    if finding.detection.host is not None:
        yield f"on {clean(finding.detection.host)}"


def label(finding: Finding) -> str:
    """Format a cause with its line, and the rank or the host that has it."""
    detection = finding.detection
    location = detection.place or line_ref(detection.location)
    rank = "" if detection.rank is None else f" on rank {detection.rank}"
    host = "" if detection.host is None else f" on {clean(detection.host)}"
    return f"{detection.name}{f' {location}' if location else ''}{rank}{host}"


def _sentence(finding: Finding) -> str:
    return clean(finding.detection.summary).rstrip(".")


def _inferred_mark(finding: Finding) -> str:
    return " (inferred)" if finding.detection.inferred else ""


def _harmless_worth(estimate: Estimate) -> str:
    """State that a pattern is harmless, or not known to be worth anything."""
    max_gain = percent(max(0.0, estimate.high - 1))
    if estimate.high <= 1:
        return "harmless here: worth nothing"
    if estimate.high - 1 < _MIN_GAIN:
        return f"harmless here: worth at most {max_gain}"
    if estimate.mid - 1 < _MIN_GAIN and estimate.high - 1 < _MAX_HARMLESS_GAIN:
        return f"likely harmless here: worth at most {max_gain}"
    if estimate.low - 1 >= _MIN_GAIN:
        return f"explains the same time as a cause above: {ratio_text(estimate)}"
    return f"not surely worth it: {ratio_text(estimate)}"
