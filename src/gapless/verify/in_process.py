"""Sides measured in one process, edits switched while it runs; the others in fresh ones."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.errors import UsageError
from gapless.model.edit import Applicability
from gapless.model.recording import Recording
from gapless.model.trial import Arm, Method, Side, Trial
from gapless.verify import lengths
from gapless.verify.arms import compare
from gapless.verify.arms.block_losses import LossLevel, compare_level
from gapless.verify.arms.blocks import SwitchedSteps, read_blocks
from gapless.verify.arms.steady import step_time
from gapless.verify.arms.switchable import explain_obstacle, leaves_collector
from gapless.verify.budget import TrialBudgetError, check_budget
from gapless.verify.course import Progress
from gapless.verify.plan import ON_DEVICE, conduct
from gapless.verify.specs import (
    UNEDITED,
    ArmMode,
    ArmRun,
    ArmSpec,
    Candidate,
    RunArm,
    TrialSettings,
)

_SHARE: Final = 0.5  # of the budget, where other sides need fresh processes
_MAX_FOREIGN_SHARE: Final = 0.1  # of the processors
_NOTED_SHARE: Final = 0.01  # of the time; steps of less are not worth a word
_UNBOUNDED: Final = 10**9  # steps: the process leaves when its sides are decided
_PARITY_NOTE: Final = "no losses were seen"
# of edits, which ought to leave losses where they are
_KEEPS_LOSSES: Final = frozenset((Applicability.IDENTICAL, Applicability.EQUIVALENT))


class SwitchedTrial(Struct, frozen=True):
    """What one process has shown: its sides and blocks, and why others need fresh processes."""

    sides: Mapping[str, Side]
    arms: tuple[Arm, ...]
    step_ns: int | None
    noise: float | None
    obstacles: Mapping[str, str]  # by side
    notes: tuple[str, ...] = ()


def conduct_both_ways(
    candidates: tuple[Candidate, ...],
    settings: TrialSettings,
    run_arm: RunArm,
    report_progress: Progress,
    first_run: ArmRun | None = None,
) -> Trial:
    """Measure in one process what can be switched there, all else in fresh processes.

    Raises what ``plan.conduct`` does, where nothing was measured in one process.
    """
    if settings.mode is ArmMode.FRESH:
        return conduct(candidates, settings, run_arm, report_progress, first_run)
    start_s = settings.clock() if settings.start_s is None else settings.start_s
    settings = replace(settings, start_s=start_s)
    sides = dict(zip(lengths.name_sides(candidates), candidates, strict=True))
    obstacles = {name: explain_obstacle(side.edits) for name, side in sides.items()}
    switchable = {name: side for name, side in sides.items() if obstacles[name] is None}
    is_switched_only = settings.mode is ArmMode.SWITCHED
    if not switchable and not is_switched_only:
        return conduct(candidates, settings, run_arm, report_progress, first_run)
    switched = _switch(switchable, sides, settings, run_arm, report_progress)
    reasons = {name: why for name, why in obstacles.items() if why is not None}
    reasons.update(switched.obstacles)
    rest = {name: side for name, side in sides.items() if name not in switched.sides}
    fresh = None
    notes = list(switched.notes)
    if rest and not is_switched_only:
        notes += _name_reasons("fresh processes for", rest, reasons)
        try:
            fresh = conduct(tuple(rest.values()), settings, run_arm, report_progress, first_run)
        except UsageError as error:
            if not switched.sides:
                raise
            notes += [f"not tried in fresh processes: {error}"]
    else:
        notes += _name_reasons("not tried in one process:", rest, reasons)
    return _join(switched, fresh, rest, settings, notes)


def choose_mode(
    candidates: Sequence[Candidate], settings: TrialSettings, recording: Recording
) -> TrialSettings:
    """Return settings that say how candidates are measured, where the user did not.

    In fresh processes, which show losses, data and whole jobs as well; where the budget does not
    hold those, what can be switched in one process, and the others in fresh ones. Raises
    ``UsageError`` where it does not hold that either. With ``SWITCHED_FIRST`` what can be
    switched gets fresh processes only where one process does not show it.
    """
    if settings.mode is ArmMode.SWITCHED:
        return settings
    can_all = all(explain_obstacle(side.edits) is None for side in candidates)
    if settings.mode is ArmMode.SWITCHED_FIRST and can_all:
        return settings
    try:
        check_budget(candidates, settings, recording)
    except TrialBudgetError:
        rest = tuple(side for side in candidates if explain_obstacle(side.edits) is not None)
        if settings.mode is ArmMode.FRESH or len(rest) == len(candidates):
            raise
        left = None if settings.max_budget_s is None else _SHARE * settings.max_budget_s
        half = replace(settings, budget_s=_SHARE * settings.budget_s, max_budget_s=left)
        check_budget(rest, half, recording)
        return settings
    return replace(settings, mode=ArmMode.FRESH)


def _name_reasons(
    words: str, rest: Mapping[str, Candidate], reasons: Mapping[str, str]
) -> list[str]:
    return [f"{words} {' + '.join(side.fixes)}: {reasons[name]}" for name, side in rest.items()]


# ── One process ─────────────────────────────────────────────────────────────────────────────────


def _switch(
    switchable: Mapping[str, Candidate],
    sides: Mapping[str, Candidate],
    settings: TrialSettings,
    run_arm: RunArm,
    report_progress: Progress,
) -> SwitchedTrial:
    """Run the process and judge its blocks; where it fails, all sides need fresh processes."""
    if not switchable:
        return SwitchedTrial({}, (), None, None, {})
    names = list(switchable)
    report_progress(f"in one process: {', '.join(names)} switched in turns")
    seconds = settings.budget_s * (1.0 if len(switchable) == len(sides) else _SHARE)
    edits = tuple(side.edits for side in switchable.values())
    run = run_arm(ArmSpec(UNEDITED, 0, (), _UNBOUNDED, seconds, switched=edits))
    counts = [len(side_edits) for side_edits in edits]
    steps = None if run.recording is None else read_blocks(run.recording, counts)
    if steps is None:
        why = run.failure or "nothing could be switched in its steps"
        return SwitchedTrial({}, (), None, None, dict.fromkeys(names, why))
    return _judge(switchable, steps, run)


def _judge(switchable: Mapping[str, Candidate], steps: SwitchedSteps, run: ArmRun) -> SwitchedTrial:
    names = [UNEDITED, *switchable]
    obstacles: dict[str, str] = {}
    sides: dict[str, Side] = {}
    for index, (name, candidate) in enumerate(switchable.items(), 1):
        level = compare_level(steps.losses, index)
        why = _explain_failure(steps, index, run)
        if (
            why is None
            and level
            and level.is_different
            and candidate.applicability in _KEEPS_LOSSES
        ):
            why = level.describe()
        if why is None:
            sides[name] = _make_side(name, candidate, steps, index, level)
        else:
            obstacles[name] = why
    unedited_ns = steps.step_ns(0)
    compared = "only the level of losses is" if steps.losses else "losses cannot be"
    notes = [f"edits were switched in one process: {compared} compared there"]
    notes += [ON_DEVICE] * steps.on_device
    stalls = steps.stalls(0)
    share = stalls.step_ns / unedited_ns if unedited_ns else 0.0
    if share >= _NOTED_SHARE:
        notes.append(
            f"{stalls.count} of {stalls.steps} unedited steps took more than twice as long as "
            f"usual: {share:.0%} of the time, which blocks leave out and speed-ups count as rare"
        )
    if steps.foreign is not None and steps.foreign > _MAX_FOREIGN_SHARE:
        notes.append(f"others took {steps.foreign:.0%} of the processors meanwhile")
    noises = [side.noise for side in sides.values() if side.noise is not None]
    return SwitchedTrial(
        sides=sides,
        arms=tuple(_list_arms(steps, names, run)),
        step_ns=unedited_ns,
        noise=max(noises, default=None),
        obstacles=obstacles,
        notes=tuple(notes) if sides else (),
    )


def _explain_failure(steps: SwitchedSteps, side: int, run: ArmRun) -> str | None:
    """Return why a side needs fresh processes; ``None``: it was measured."""
    n_pairs = len(steps.pairs(side))
    if side in steps.obstacles and (n_pairs or side in steps.failed):
        return steps.obstacles[side]
    if run.failure is not None and steps.active == side:
        return f"the process ended while it was on: {run.failure}"
    drift = steps.drift(side)
    if drift is not None:
        return f"unedited steps were {drift:+.1%} different after it was switched off"
    if steps.speedup(side) is None:
        return (
            f"{n_pairs} block{'' if n_pairs == 1 else 's'} of it fitted into the time: no interval"
        )
    return None


def _make_side(
    name: str, candidate: Candidate, steps: SwitchedSteps, index: int, level: LossLevel | None
) -> Side:
    collects_as_before = leaves_collector(candidate.edits)
    speedup = steps.speedup(index, collects_as_before=collects_as_before)
    noise = steps.noise(index)
    peaks = steps.memory_peaks
    return Side(
        name=name,
        fixes=candidate.fixes,
        summary=candidate.summary,
        edits=candidate.edits,
        applicability=candidate.applicability,
        verdict=compare.judge_speedup(speedup, noise, candidate.predicted),
        speedup=speedup,
        job=None,
        step_ns=steps.step_ns(index),
        parity_note=_PARITY_NOTE if level is None else level.describe(),
        predicted=candidate.predicted,
        method=Method.IN_PROCESS,
        noise=noise,
        memory_peaks=(peaks[0], peaks[index]) if {0, index} <= peaks.keys() else None,
    )


def _list_arms(steps: SwitchedSteps, names: Sequence[str], run: ArmRun) -> list[Arm]:
    folder = None if run.recording is None else run.recording.path
    return [
        Arm(
            side=names[block.side],
            order=order,
            folder=folder,
            code=run.code,
            steps=block.steps,
            step_ns=round(step_time(block.times_ns)),
            first_batch_ns=None,
            start_ns=None,
            turn_ns=None,
            exit_ns=None,
            foreign=None,
            noise=compare.arm_noise(block.times_ns),
        )
        for order, block in enumerate(steps.blocks)
    ]


# ── Both ────────────────────────────────────────────────────────────────────────────────────────


def _join(
    switched: SwitchedTrial,
    fresh: Trial | None,
    rest: Mapping[str, Candidate],
    settings: TrialSettings,
    notes: Sequence[str],
) -> Trial:
    """Return one trial of what both ways have shown."""
    if fresh is None:
        fresh = Trial(
            id=settings.id,
            command=settings.command,
            run=settings.run,
            arms=(),
            order="",
            sides=(),
            noise=switched.noise,
            step_ns=switched.step_ns,
            measured=None,
            cache=settings.cache,
            spent_s=0.0,
        )
    names = {
        UNEDITED: UNEDITED,
        **dict(zip(lengths.name_sides(tuple(rest.values())), rest, strict=True)),
    }
    fresh_sides = {names[side.name]: replace(side, name=names[side.name]) for side in fresh.sides}
    arms = [arm for arm in switched.arms if arm.side in {UNEDITED, *switched.sides}]
    arms += [replace(arm, side=names[arm.side]) for arm in fresh.arms]
    merged = {**switched.sides, **fresh_sides}
    start_s = settings.clock() if settings.start_s is None else settings.start_s
    return replace(
        fresh,
        arms=tuple(replace(arm, order=order) for order, arm in enumerate(arms)),
        order="".join(arm.side for arm in arms if arm.failed is None),
        sides=tuple(merged[name] for name in sorted(merged)),
        spent_s=settings.clock() - start_s,
        notes=tuple(dict.fromkeys((*notes, *fresh.notes))),
    )
