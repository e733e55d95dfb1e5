"""The loop of a trial: which arm is run next, until the intervals are narrow or time is over."""

from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from gapless.errors import GaplessError, UsageError
from gapless.model.trial import Trial
from gapless.verify import lengths
from gapless.verify.arms import disturbance
from gapless.verify.arms.disturbance import DISTURBED, find_disturbance, is_hopeless
from gapless.verify.arms.results import ArmResult, make_scoreboard
from gapless.verify.arms.steady import ArmSteps
from gapless.verify.budget import budget_error, format_time, round_up_budget, step_ns
from gapless.verify.course import (
    Course,
    Progress,
    describe_progress,
    fits,
    give_up,
    remaining_s,
)
from gapless.verify.in_turns import plan_pairs, run_pairs
from gapless.verify.judging import judge_trial
from gapless.verify.lengths import ArmLength, LengthInputs
from gapless.verify.specs import (
    OUT_OF_MEMORY,
    UNEDITED,
    ArmRun,
    ArmSpec,
    Candidate,
    RunArm,
    TrialSettings,
)

ON_DEVICE: Final = "steps are timed on the device: the host may run ahead of it"
INTERRUPTED: Final = "interrupted: judged by what had been measured until then"
_NS: Final = 1e-9
# times as fast as the first arm: others must be longer than planned by it
_REPLAN_SPEEDUP: Final = 2.0
_MAX_GROUPS: Final = 1000  # groups of a turn, at most


def conduct(
    candidates: tuple[Candidate, ...],
    settings: TrialSettings,
    run_arm: RunArm,
    report_progress: Progress,
    first_run: ArmRun | None = None,
) -> Trial:
    """Run arms in turns until each candidate is decided or the budget is spent; return the trial.

    ``run_arm`` runs one; ``first_run`` is the discarded one, if it was run already. Ctrl-C ends the
    trial: what was measured so far is judged, if a side has an interval. Raises ``UsageError``
    where the first arm shows that the budget is too small for two pairs of arms, and may not grow
    so far; ``GaplessError`` where it failed.
    """
    start_s = settings.clock() if settings.start_s is None else settings.start_s
    sides = dict(zip(lengths.name_sides(candidates), candidates, strict=True))
    course = Course(settings, sides, run_arm, report_progress, start_s, [], [], [settings.budget_s])
    try:
        _run_arms(course, first_run)
    except KeyboardInterrupt:
        course.notes.append(INTERRUPTED)
        if not any(course.scoreboard.pairs(side) for side in sides):
            raise  # nothing can be compared yet
    scoreboard = make_scoreboard(course.results)
    course.notes.extend([ON_DEVICE] * scoreboard.on_device)
    course.notes.extend(disturbance.describe_disturbance(scoreboard))
    return judge_trial(scoreboard, sides, settings, course.notes, settings.clock() - start_s)


def _run_arms(course: Course, first_run: ArmRun | None) -> None:
    length = _run_first_arm(course, first_run) if course.sides else None
    turns = None if length is None else plan_pairs(course, length)
    if length is not None and turns is not None and not run_pairs(course, length, turns):
        turns = None
        with suppress(UsageError):  # what was lost may leave too little: arms are as planned then
            length = _check_length(course, course.results[-1])
    if length is not None and turns is None:
        length = _run_turns(course, length)
    if length is not None and course.settings.windows:
        _run_windows(course, length)


# ── The first arm, and how long the others are ──────────────────────────────────────────────────


def _run_first_arm(course: Course, first_run: ArmRun | None) -> ArmLength:
    """Run the arm that is discarded; return how long the others are."""
    spec = lengths.first_arm(course.settings.budget_s, course.settings.steps)
    before = course.settings.clock()
    if first_run is None:
        course.report_progress("first arm, not counted: how long a start and a step take")
        first_run = course.run_arm(spec)
    result = course.arm_result(spec, None, first_run, course.settings.clock() - before)
    course.results.append(replace(result, why_discarded=result.failure or "discarded: the first"))
    if result.steps is None or result.failure is not None:
        folder = (
            "" if first_run.recording is None else f" (its records: {first_run.recording.path})"
        )
        raise GaplessError(f"the unedited training could not be measured: {result.failure}{folder}")
    return _check_length(course, result)


def _plan_length(course: Course, steps: ArmSteps, took_s: float) -> ArmLength:
    stepping_s = float(steps.ends[-1] - steps.ends[0]) * _NS
    start_s = (steps.start_ns + (steps.exit_ns or 0)) * _NS
    job = course.settings.job
    inputs = LengthInputs(
        arm_steps=steps,
        step_ns=step_ns(steps),
        overhead_s=max(took_s - stepping_s, start_s),
        left_s=course.left_s,
        has_turns=job is not None and job.turns > 0,
        fixed_steps=course.settings.steps,
        pairs=course.settings.pairs,
    )
    return lengths.plan_length(inputs, tuple(course.sides.values()))


def _check_length(course: Course, result: ArmResult) -> ArmLength:
    """Plan arms by one that is known, and note what does not fit.

    Raises ``UsageError`` where two pairs do not, and the budget may not grow so far.
    """
    if result.steps is None:
        msg = "an arm by which others are planned has steps"
        raise AssertionError(msg)
    length = _plan_length(course, result.steps, result.took_s)
    if length.needed_s is not None:
        needed_s = course.spent_s + length.needed_s
        if (
            round_up_budget(needed_s) > (course.settings.max_budget_s or 0.0)
            or len(course.budgets) > 1
        ):
            raise budget_error(needed_s, course.budget_s)
        course.budgets.append(round_up_budget(needed_s))
        course.report_progress(
            f"starts and steps are slow: the budget is now {format_time(course.budget_s)}"
        )
        return _check_length(course, result)
    if length.pairs < course.settings.pairs:
        course.notes.append(
            f"the budget of {format_time(course.budget_s)} holds {length.pairs} pairs of arms: "
            "intervals are wide"
        )
    course.notes.extend(
        f"what recurs every {period} steps lies beyond the {length.stop_step} steps of an arm"
        for period in length.uncovered_periods
    )
    return length


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────


def _run_turns(course: Course, length: ArmLength, *, may_replan: bool = True) -> ArmLength | None:
    """Run turns until all sides are decided or time is over; ``None`` if unedited arms fail.

    If the first arm that counts is twice as fast as the discarded one was, which filled caches,
    arms are planned again, longer.
    """
    number = 0
    while sides := course.open_sides():
        for group, arms in enumerate(lengths.order_turn(number, sides)):
            if not fits(course, length, arms, length.arm_s):
                return length
            for side in arms:
                result = _run_side(course, length, side, _MAX_GROUPS * number + group)
                if course.scoreboard.is_lost(UNEDITED):
                    course.notes.append(f"unedited arms failed: {result.failure}")
                    return None
                if (
                    may_replan
                    and result.steps
                    and step_ns(result.steps) < length.step_ns / _REPLAN_SPEEDUP
                ):
                    course.results[-1] = replace(
                        result, why_discarded="discarded: the first was slower"
                    )
                    return _run_turns(course, _check_length(course, result), may_replan=False)
                may_replan = False
        number += 1
        give_up(course, length)
    return length


def _run_side(course: Course, length: ArmLength, side: str, turn: int) -> ArmResult:
    """Run an arm, once more if it failed or was disturbed; the second time it counts."""
    result = _run_arm(course, length, side, turn)
    why = result.failure or find_disturbance(course.scoreboard, result)
    if why is None or result.failure == OUT_OF_MEMORY or not fits(course, length, (side,)):
        return result
    if result.failure is None:
        if is_hopeless(course.results[:-1]) or not _can_repeat(course, length, side):
            return result
        course.results[-1] = replace(result, why_discarded=f"{DISTURBED}{why}")
    return _run_arm(course, length, side, turn)


def _can_repeat(course: Course, length: ArmLength, side: str) -> bool:
    """Return whether an arm can be repeated without losing requested pairs."""
    return (
        remaining_s(course, length) + course.scoreboard.arm_s(side, length.arm_s) <= course.left_s
    )


def _run_arm(course: Course, length: ArmLength, side: str, turn: int | None) -> ArmResult:
    """Run an arm; without a turn it is one that takes a window."""
    edits = course.sides[side].edits if side in course.sides else ()
    window = turn is None
    stop = length.window_stop_step if window else length.stop_step
    spec = ArmSpec(side, len(course.results), edits, stop, length.seconds, window)
    course.report_progress(describe_progress(course, length, spec))
    before = course.settings.clock()
    run = course.run_arm(spec)
    course.results.append(course.arm_result(spec, turn, run, course.settings.clock() - before))
    return course.results[-1]


def _run_windows(course: Course, length: ArmLength) -> None:
    """Run one more arm of each side that was measured, which takes a window."""
    scoreboard = course.scoreboard
    sides = [side for side in (UNEDITED, *course.sides) if scoreboard.results_of(side)]
    costs_s = {side: scoreboard.arm_s(side, length.arm_s) for side in sides}
    has_time = sum(costs_s.values()) <= course.left_s
    if not has_time:
        course.notes.append("no time was left for windows: there are no accounts to compare")
    for side in costs_s if has_time else ():
        result = _run_arm(course, length, side, None)
        course.results[-1] = replace(result, why_discarded=result.failure or "window")
