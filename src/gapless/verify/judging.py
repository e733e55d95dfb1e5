"""From the arms that were run to the trial: sides, verdicts, jobs, notes."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.account import Account
from gapless.model.edit import Applicability, Edit, Skip
from gapless.model.estimate import Estimate
from gapless.model.recording import Recording
from gapless.model.trial import Arm, Side, Trial, TrialVerdict
from gapless.verify.arms import effects, parity
from gapless.verify.arms.compare import explain_doubt
from gapless.verify.arms.parity import Likeness
from gapless.verify.arms.results import ArmResult, Scoreboard, arm_noise, foreign_share
from gapless.verify.arms.steady import settling_ns, step_time
from gapless.verify.specs import OUT_OF_MEMORY, UNEDITED, Candidate, Job, TrialSettings

_MEASURED: Final = frozenset(TrialVerdict) - {TrialVerdict.DOES_NOT_FIT, TrialVerdict.REFUSED}


class SideMedians(Struct, frozen=True):
    """The medians of a side's arms; ``None``: not observed."""

    step_ns: float | None
    settling_ns: float | None  # what starting took beyond steady steps
    first_batch_ns: float | None
    turn_ns: float | None
    exit_ns: float | None


def judge_trial(
    scoreboard: Scoreboard,
    sides: dict[str, Candidate],
    settings: TrialSettings,
    notes: Sequence[str],
    spent_s: float,
) -> Trial:
    """Return the trial that consists of some arms."""
    unedited = medians(scoreboard, UNEDITED)
    return Trial(
        id=settings.id,
        command=settings.command,
        run=settings.run,
        arms=tuple(_make_arm(scoreboard, result) for result in scoreboard.results),
        order="".join(result.spec.side for result in scoreboard.counted_results),
        sides=tuple(
            _make_side(scoreboard, name, candidate, settings.job)
            for name, candidate in sides.items()
        ),
        noise=scoreboard.noise,
        step_ns=_round_ns(unedited.step_ns),
        measured=scoreboard.measured_steps,
        cache=settings.cache,
        spent_s=spent_s,
        account=_find_account(scoreboard, UNEDITED),
        notes=tuple(notes),
    )


def _round_ns(value: float | None) -> int | None:
    return None if value is None else round(value)


def medians(scoreboard: Scoreboard, side: str) -> SideMedians:
    """Return the medians of the arms of a side that count."""
    arms = [
        (result, result.steps) for result in scoreboard.results_of(side) if result.steps is not None
    ]
    steady_range = scoreboard.steady_range
    if steady_range is None or not arms:
        return SideMedians(None, None, None, None, None)
    step_times_ns = [step_time(scoreboard.block_means(result)) for result, _ in arms]
    return SideMedians(
        step_ns=_median(step_times_ns),
        settling_ns=_median(
            [
                settling_ns(arm_steps, steady_range, step_ns)
                for (_, arm_steps), step_ns in zip(arms, step_times_ns, strict=True)
            ]
        ),
        first_batch_ns=_median([arm_steps.first_batch_ns for _, arm_steps in arms]),
        turn_ns=_median([arm_steps.turn_ns for _, arm_steps in arms]),
        exit_ns=_median([arm_steps.exit_ns for _, arm_steps in arms]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    observed = [value for value in values if value is not None]
    return float(np.median(observed)) if observed else None


def _make_arm(scoreboard: Scoreboard, result: ArmResult) -> Arm:
    blocks = scoreboard.block_means(result) if result.is_counted else np.empty(0)
    steps, run = result.steps, result.run
    return Arm(
        side=result.spec.side,
        order=result.spec.index,
        folder=None if run.recording is None else run.recording.path,
        code=run.code,
        steps=scoreboard.steady_range.stop - scoreboard.steady_range.start
        if len(blocks) and scoreboard.steady_range
        else 0,
        step_ns=round(step_time(blocks)) if len(blocks) else None,
        first_batch_ns=steps.first_batch_ns if steps else None,
        start_ns=steps.start_ns if steps else None,
        turn_ns=steps.turn_ns if steps else None,
        exit_ns=steps.exit_ns if steps else None,
        foreign=foreign_share(result),
        failed=result.why_discarded,
        noise=arm_noise(scoreboard, result) if len(blocks) else None,
    )


def _find_account(scoreboard: Scoreboard, side: str) -> Account | None:
    accounts = [
        result.run.account
        for result in scoreboard.results
        if result.spec.side == side and result.spec.takes_window
    ]
    return next((account for account in reversed(accounts) if account is not None), None)


def _make_side(scoreboard: Scoreboard, name: str, candidate: Candidate, job: Job | None) -> Side:
    verdict, speedup = scoreboard.verdict(name, candidate), scoreboard.speedup(name)
    likeness = _compare_training(scoreboard, name, candidate)
    noise = 0.0 if scoreboard.in_turns else scoreboard.noise
    doubt = explain_doubt(verdict, speedup, noise)
    why = _explain_verdict(scoreboard, name, verdict) or doubt
    idle_edits = _find_idle_edits(scoreboard, name, candidate)
    idle_words = effects.describe_idle_edits(idle_edits) if idle_edits else None
    effect_words = effects.describe_effects(candidate.edits, _recordings(scoreboard, name))
    why = "; ".join(filter(None, (why, idle_words, effect_words))) or None
    if (
        idle_edits
        and len(idle_edits) == len(candidate.edits)
        and verdict in _MEASURED
        and not _is_ablation(candidate)
    ):
        verdict, why = TrialVerdict.REFUSED, f"the edit {effects.describe_idle_edits(idle_edits)}"
    if likeness.refused is not None and verdict in _MEASURED:
        verdict, why = TrialVerdict.REFUSED, likeness.refused
    own_medians = medians(scoreboard, name)
    return Side(
        name=name,
        fixes=candidate.fixes,
        summary=candidate.summary,
        edits=candidate.edits,
        applicability=candidate.applicability,
        verdict=verdict,
        speedup=speedup,
        job=estimate_job_gain(scoreboard, name, speedup, job),
        first_batch_ns=_round_ns(own_medians.first_batch_ns),
        turn_ns=_round_ns(own_medians.turn_ns),
        exit_ns=_round_ns(own_medians.exit_ns),
        step_ns=_round_ns(own_medians.step_ns),
        parity=likeness.parity,
        parity_note=likeness.note,
        data=likeness.data,
        why=why,
        account=_find_account(scoreboard, name),
        predicted=candidate.predicted,
    )


def _find_idle_edits(scoreboard: Scoreboard, side: str, candidate: Candidate) -> tuple[Edit, ...]:
    """Return the edits that took no effect in any arm of a side."""
    return effects.find_idle_edits(candidate.edits, _recordings(scoreboard, side))


def _recordings(scoreboard: Scoreboard, side: str) -> list[Recording]:
    """Return what the arms of a side recorded, of those that did not fail."""
    return [
        result.run.recording
        for result in scoreboard.results
        if result.spec.side == side and not result.failure and result.run.recording is not None
    ]


def _is_ablation(candidate: Candidate) -> bool:
    """Return whether finding nothing to leave out is a result: there is nothing to gain by it."""
    skips_only = all(isinstance(edit, Skip) for edit in candidate.edits)
    return skips_only or candidate.applicability is Applicability.ABLATION


def _explain_verdict(scoreboard: Scoreboard, side: str, verdict: TrialVerdict) -> str | None:
    failures = scoreboard.failures(side)
    if verdict is TrialVerdict.DOES_NOT_FIT:
        return OUT_OF_MEMORY
    if verdict is TrialVerdict.REFUSED:
        return failures[-1]
    pairs = len(scoreboard.pairs(side))
    if verdict is TrialVerdict.UNDECIDED and pairs < 2:  # noqa: PLR2004 - one pair has no interval
        failure_text = f"; an arm failed: {failures[-1]}" if failures else ""
        return f"{pairs} pair{'' if pairs == 1 else 's'} of arms: no interval{failure_text}"
    return None


def _compare_training(scoreboard: Scoreboard, side: str, candidate: Candidate) -> Likeness:
    """Compare what was trained on; an ablation trains on something else by design."""
    if candidate.applicability is Applicability.ABLATION:
        return Likeness()
    arm_recordings = [
        [
            result.run.recording
            for result in scoreboard.results_of(name)
            if result.run.recording is not None
        ]
        for name in (UNEDITED, side)
    ]
    observations = [
        [
            observation
            for observation in map(parity.find_observation, recordings)
            if observation is not None
        ]
        for recordings in arm_recordings
    ]
    rounding = max(
        (parity.epsilon(recording) for recordings in arm_recordings for recording in recordings),
        default=0.0,
    )
    return parity.compare_training(observations[0], observations[1], rounding)


def estimate_job_gain(
    scoreboard: Scoreboard, side: str, speedup: Estimate | None, job: Job | None
) -> Estimate | None:
    """Return what a side gains over a job of a certain length: start, steps, epoch turns, exit.

    The interval is that of the step; ``None`` where the job's length is not known, or a part of it
    that one of the sides did not show. Also of arms that stepped in turns, as they started at once.
    """
    both_medians = medians(scoreboard, UNEDITED), medians(scoreboard, side)
    step_ns = both_medians[0].step_ns
    if speedup is None or job is None or step_ns is None or scoreboard.in_turns:
        return None  # two arms that start at the same time start more slowly
    overheads_ns = [_overhead_ns(side_medians, job) for side_medians in both_medians]
    if overheads_ns[0] is None or overheads_ns[1] is None:
        return None
    total_ns = overheads_ns[0] + job.steps * step_ns
    bounds = (speedup.low, speedup.mid, speedup.high)
    return Estimate(
        *(total_ns / (overheads_ns[1] + job.steps * step_ns / ratio) for ratio in bounds)
    )


def _overhead_ns(side_medians: SideMedians, job: Job) -> float | None:
    """Return what a job takes besides its steps; an exit that was not seen counts as nothing."""
    if side_medians.settling_ns is None or (job.turns and side_medians.turn_ns is None):
        return None
    return (
        side_medians.settling_ns
        + job.turns * (side_medians.turn_ns or 0.0)
        + (side_medians.exit_ns or 0.0)
    )
