"""From the arms that were run to the trial: sides, verdicts, jobs, notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.model.account import Account
from gapless.model.edit import Applicability, Edit, Skip
from gapless.model.interval import Interval
from gapless.model.trial import Arm, Check, Side, Trial, Verdict
from gapless.verify import checking, disturbance, effects, parity
from gapless.verify.parity import Likeness
from gapless.verify.steady import settling_ns, step_time
from gapless.verify.taken import Standing, Taken, foreign, own_noise
from gapless.verify.wanted import OUT_OF_MEMORY, UNEDITED, Candidate, Job, TrialSettings

_MEASURED: Final = frozenset(Verdict) - {Verdict.DOES_NOT_FIT, Verdict.REFUSED}


@dataclass(frozen=True)
class Medians:
    """The medians of a side's arms; ``None``: not observed."""

    step_ns: float | None
    settling_ns: float | None  # what starting took beyond steady steps
    first_batch_ns: float | None
    turn_ns: float | None
    exit_ns: float | None


def judged(
    found: Standing,
    sides: dict[str, Candidate],
    settings: TrialSettings,
    notes: Sequence[str],
    spent_s: float,
) -> Trial:
    """Give the trial that some arms make."""
    whole = medians(found, UNEDITED)
    return Trial(
        id=settings.id,
        command=settings.command,
        run=settings.run,
        arms=tuple(_arm(found, one) for one in found.taken),
        order="".join(one.order.side for one in found.counted),
        sides=tuple(_side(found, name, one, settings.job) for name, one in sides.items()),
        noise=found.noise,
        step_ns=_whole(whole.step_ns),
        measured=None if found.range is None else found.range.steps,
        cache=settings.cache,
        spent_s=spent_s,
        account=_account(found, UNEDITED),
        notes=tuple(notes),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def medians(found: Standing, side: str) -> Medians:
    """Give the medians of the arms of a side that count."""
    every = [(one, one.stepped) for one in found.of(side) if one.stepped is not None]
    chosen = found.range
    if chosen is None or not every:
        return Medians(None, None, None, None, None)
    steps = [step_time(found.blocks(one)) for one, _ in every]
    return Medians(
        step_ns=_median(steps),
        settling_ns=_median(
            [settling_ns(one, chosen, step) for (_, one), step in zip(every, steps, strict=True)]
        ),
        first_batch_ns=_median([one.first_batch_ns for _, one in every]),
        turn_ns=_median([one.turn_ns for _, one in every]),
        exit_ns=_median([one.exit_ns for _, one in every]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return float(np.median(known)) if known else None


def _arm(found: Standing, one: Taken) -> Arm:
    blocks = found.blocks(one) if one.counts else np.empty(0)
    stepped, ran = one.stepped, one.ran
    return Arm(
        side=one.order.side,
        order=one.order.order,
        folder=None if ran.recording is None else ran.recording.path,
        code=ran.code,
        steps=found.range.last - found.range.first if len(blocks) and found.range else 0,
        step_ns=round(step_time(blocks)) if len(blocks) else None,
        first_batch_ns=stepped.first_batch_ns if stepped else None,
        start_ns=stepped.start_ns if stepped else None,
        turn_ns=stepped.turn_ns if stepped else None,
        exit_ns=stepped.exit_ns if stepped else None,
        foreign=foreign(one),
        failed=one.failed,
        noise=own_noise(found, one) if len(blocks) else None,
    )


def _account(found: Standing, side: str) -> Account | None:
    mine = [one.ran.account for one in found.taken if one.order.side == side and one.order.window]
    return next((one for one in reversed(mine) if one is not None), None)


def _side(found: Standing, name: str, one: Candidate, job: Job | None) -> Side:
    verdict, speedup = found.verdict(name, one), found.speedup(name)
    like = _likeness(found, name, one)
    why = _why(found, name, verdict)
    idle = _idle(found, name, one)
    if idle:
        why = "; ".join(filter(None, (why, effects.told(idle))))
    if idle and len(idle) == len(one.edits) and verdict in _MEASURED and not _is_ablation(one):
        verdict, why = Verdict.REFUSED, f"the edit {effects.told(idle)}"
    if like.refused is not None and verdict in _MEASURED:
        verdict, why = Verdict.REFUSED, like.refused
    mine = medians(found, name)
    return Side(
        name=name,
        fixes=one.fixes,
        summary=one.summary,
        edits=one.edits,
        applicability=one.applicability,
        verdict=verdict,
        speedup=speedup,
        job=whole_job(found, name, speedup, job),
        first_batch_ns=_whole(mine.first_batch_ns),
        turn_ns=_whole(mine.turn_ns),
        exit_ns=_whole(mine.exit_ns),
        step_ns=_whole(mine.step_ns),
        parity=like.parity,
        parity_note=like.note,
        data=like.data,
        why=why,
        account=_account(found, name),
        predicted=one.predicted,
        check=_checked(found, one, verdict, speedup),
    )


def _checked(
    found: Standing, one: Candidate, verdict: Verdict, speedup: Interval | None
) -> Check | None:
    """Give the check of a side with what it measured, if it did what it should."""
    if one.check is None or verdict not in _MEASURED:
        return one.check
    busy = any(map(disturbance.by_others, found.counted))
    arms = checking.Arms(medians(found, UNEDITED).step_ns, found.noise, busy)
    return checking.checked(one.check, speedup, arms)


def _idle(found: Standing, side: str, candidate: Candidate) -> tuple[Edit, ...]:
    """Give the edits that took no effect in any arm of a side."""
    arms = [one.ran.recording for one in found.taken if one.order.side == side and not one.broken]
    return effects.idle(candidate.edits, [one for one in arms if one is not None])


def _is_ablation(candidate: Candidate) -> bool:
    """Tell whether to find nothing to leave out is a result: there is nothing to gain by it."""
    skips = all(isinstance(one, Skip) for one in candidate.edits)
    ceiling = candidate.applicability is Applicability.TRIAL and candidate.check is None
    return ceiling or skips


def _why(found: Standing, side: str, verdict: Verdict) -> str | None:
    failures = found.failures(side)
    if verdict is Verdict.DOES_NOT_FIT:
        return OUT_OF_MEMORY
    if verdict is Verdict.REFUSED:
        return failures[-1]
    pairs = len(found.pairs(side))
    if verdict is Verdict.UNDECIDED and pairs < 2:  # noqa: PLR2004 - one pair has no interval
        last = f"; an arm failed: {failures[-1]}" if failures else ""
        return f"{pairs} pair{'' if pairs == 1 else 's'} of arms: no interval{last}"
    return None


def _likeness(found: Standing, side: str, candidate: Candidate) -> Likeness:
    """Compare what was trained on; an ablation trains on something else by intent."""
    if candidate.applicability is Applicability.TRIAL:
        return Likeness()
    arms = [
        [one.ran.recording for one in found.of(of) if one.ran.recording is not None]
        for of in (UNEDITED, side)
    ]
    observed = [[one for one in map(parity.observed, each) if one is not None] for each in arms]
    rounding = max((parity.epsilon(one) for each in arms for one in each), default=0.0)
    return parity.likeness(observed[0], observed[1], rounding)


def whole_job(
    found: Standing, side: str, speedup: Interval | None, job: Job | None
) -> Interval | None:
    """Give what a side gains over a job of a certain length: start, steps, epoch turns, exit.

    The interval is that of the step; ``None`` where the job's length is not known, or a part of it
    that one of the sides did not show.
    """
    both = medians(found, UNEDITED), medians(found, side)
    step = both[0].step_ns
    if speedup is None or job is None or step is None:
        return None
    beside = [_beside(one, job) for one in both]
    if beside[0] is None or beside[1] is None:
        return None
    whole = beside[0] + job.steps * step
    bounds = (speedup.low, speedup.mid, speedup.high)
    return Interval(*(whole / (beside[1] + job.steps * step / one) for one in bounds))


def _beside(side: Medians, job: Job) -> float | None:
    """Give what a job takes beside its steps; an exit that was not seen on a side took nothing."""
    if side.settling_ns is None or (job.turns and side.turn_ns is None):
        return None
    return side.settling_ns + job.turns * (side.turn_ns or 0.0) + (side.exit_ns or 0.0)
