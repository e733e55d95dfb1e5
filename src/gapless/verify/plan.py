"""The loop of a trial: which arm is run next, until the intervals are narrow or time is over."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.errors import GaplessError
from gapless.model.trial import Trial
from gapless.verify import lengths, reach
from gapless.verify.arms import disturbance
from gapless.verify.arms.disturbance import DISTURBED, find_disturbance, is_hopeless
from gapless.verify.arms.results import ArmResult, Scoreboard, make_scoreboard
from gapless.verify.arms.steady import ArmSteps, read_steps
from gapless.verify.budget import budget_error, format_time, round_up_budget, step_ns
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

Progress = Callable[[str], None]


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
    course = _Course(
        settings, sides, run_arm, report_progress, start_s, [], [], [settings.budget_s]
    )
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


class _Course(Struct, frozen=True):
    """A running trial: what is requested, and what was run so far."""

    settings: TrialSettings
    sides: dict[str, Candidate]
    run_arm: RunArm
    report_progress: Progress
    start_s: float
    results: list[ArmResult]
    notes: list[str]
    budgets: list[float]  # the last one holds
    hidden_sides: set[str] = field(
        default_factory=set[str]
    )  # sides whose gain the noise would hide

    @property
    def budget_s(self) -> float:
        return self.budgets[-1]

    @property
    def spent_s(self) -> float:
        return self.settings.clock() - self.start_s

    @property
    def left_s(self) -> float:
        return self.budget_s - self.spent_s

    @property
    def scoreboard(self) -> Scoreboard:
        return make_scoreboard(self.results)

    def open_sides(self) -> tuple[str, ...]:
        """Return the sides that need more arms."""
        scoreboard, pairs = self.scoreboard, self.settings.pairs
        return tuple(
            name
            for name, candidate in self.sides.items()
            if name not in self.hidden_sides and not scoreboard.is_over(name, candidate, pairs)
        )


def _run_arms(course: _Course, first_run: ArmRun | None) -> None:
    length = _run_first_arm(course, first_run) if course.sides else None
    length = length and _run_turns(course, length)
    if length is not None and course.settings.windows:
        _run_windows(course, length)


# ── The first arm, and how long the others are ──────────────────────────────────────────────────


def _run_first_arm(course: _Course, first_run: ArmRun | None) -> ArmLength:
    """Run the arm that is discarded; return how long the others are."""
    spec = lengths.first_arm(course.settings.budget_s, course.settings.steps)
    before = course.settings.clock()
    if first_run is None:
        course.report_progress("first arm, not counted: how long a start and a step take")
        first_run = course.run_arm(spec)
    result = _make_result(spec, None, first_run, course.settings.clock() - before)
    course.results.append(replace(result, why_discarded=result.failure or "discarded: the first"))
    if result.steps is None or result.failure is not None:
        folder = (
            "" if first_run.recording is None else f" (its records: {first_run.recording.path})"
        )
        raise GaplessError(f"the unedited training could not be measured: {result.failure}{folder}")
    return _check_length(course, result)


def _make_result(spec: ArmSpec, turn: int | None, run: ArmRun, took_s: float) -> ArmResult:
    steps = None if run.recording is None else read_steps(run.recording)
    result = ArmResult(spec, turn, run, steps, None, took_s)
    return replace(result, why_discarded=result.failure)


def _plan_length(course: _Course, steps: ArmSteps, took_s: float) -> ArmLength:
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


def _check_length(course: _Course, result: ArmResult) -> ArmLength:
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


def _run_turns(course: _Course, length: ArmLength, *, may_replan: bool = True) -> ArmLength | None:
    """Run turns until all sides are decided or time is over; ``None`` if unedited arms fail.

    If the first arm that counts is twice as fast as the discarded one was, which filled caches,
    arms are planned again, longer.
    """
    number = 0
    while sides := course.open_sides():
        for group, arms in enumerate(lengths.order_turn(number, sides)):
            if not _fits(course, length, arms, length.arm_s):
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
        _give_up(course, length)
    return length


def _give_up(course: _Course, length: ArmLength) -> None:
    """Drop sides that the noise so far will hide for as long as time is left."""
    scoreboard, sides = course.scoreboard, course.open_sides()
    turn_s = sum(scoreboard.arm_s(side, length.arm_s) for side in (UNEDITED, *sides))
    judged_by_verdict = [name for name in sides if course.sides[name].max_half_width is None]
    hidden_gains = reach.find_hidden_sides(
        scoreboard, judged_by_verdict, int(course.left_s / turn_s)
    )
    if hidden_gains:
        course.hidden_sides.update(hidden_gains)
        course.notes.append(
            reach.explain_hidden_sides(
                hidden_gains, len(scoreboard.counted_results), course.budget_s
            )
        )


def _fits(course: _Course, length: ArmLength, arms: Sequence[str], over_s: float = 0.0) -> bool:
    """Return whether some arms fit into the budget; once there are pairs enough, windows must, too.

    Until then they may take ``over_s`` more: those before may have taken a little longer.
    """
    scoreboard = course.scoreboard
    needed_s = sum(scoreboard.arm_s(side, length.arm_s) for side in arms)
    live_sides = [side for side in course.sides if not scoreboard.is_lost(side)]
    if any(len(scoreboard.pairs(side)) < length.pairs for side in live_sides):
        return needed_s <= course.left_s + over_s
    if course.settings.windows:
        needed_s += sum(scoreboard.arm_s(side, length.arm_s) for side in (UNEDITED, *live_sides))
    return needed_s <= course.left_s


def _run_side(course: _Course, length: ArmLength, side: str, turn: int) -> ArmResult:
    """Run an arm, once more if it failed or was disturbed; the second time it counts."""
    result = _run_arm(course, length, side, turn)
    why = result.failure or find_disturbance(course.scoreboard, result)
    if why is None or result.failure == OUT_OF_MEMORY or not _fits(course, length, (side,)):
        return result
    if result.failure is None:
        if is_hopeless(course.results[:-1]) or not _can_repeat(course, length, side):
            return result
        course.results[-1] = replace(result, why_discarded=f"{DISTURBED}{why}")
    return _run_arm(course, length, side, turn)


def _can_repeat(course: _Course, length: ArmLength, side: str) -> bool:
    """Return whether an arm can be repeated without losing requested pairs."""
    return (
        _remaining_s(course, length) + course.scoreboard.arm_s(side, length.arm_s) <= course.left_s
    )


def _remaining_s(course: _Course, length: ArmLength) -> float:
    """Return how long the turns take that are still needed."""
    scoreboard = course.scoreboard
    n_missing = max(
        (length.pairs - len(scoreboard.pairs(side)) for side in course.open_sides()), default=0
    )
    live_sides = [side for side in (UNEDITED, *course.sides) if not scoreboard.is_lost(side)]
    return max(0, n_missing) * sum(scoreboard.arm_s(side, length.arm_s) for side in live_sides)


def _run_arm(course: _Course, length: ArmLength, side: str, turn: int | None) -> ArmResult:
    """Run an arm; without a turn it is one that takes a window."""
    edits = course.sides[side].edits if side in course.sides else ()
    window = turn is None
    stop = length.window_stop_step if window else length.stop_step
    spec = ArmSpec(side, len(course.results), edits, stop, length.seconds, window)
    course.report_progress(_describe_progress(course, length, spec))
    before = course.settings.clock()
    run = course.run_arm(spec)
    course.results.append(_make_result(spec, turn, run, course.settings.clock() - before))
    return course.results[-1]


def _run_windows(course: _Course, length: ArmLength) -> None:
    """Run one more arm of each side that was measured, which takes a window."""
    scoreboard = course.scoreboard
    sides = [side for side in (UNEDITED, *course.sides) if scoreboard.results_of(side)]
    costs_s = {side: scoreboard.arm_s(side, length.arm_s) for side in sides}
    fits = sum(costs_s.values()) <= course.left_s
    if not fits:
        course.notes.append("no time was left for windows: there are no accounts to compare")
    for side in costs_s if fits else ():
        result = _run_arm(course, length, side, None)
        course.results[-1] = replace(result, why_discarded=result.failure or "window")


# ── Progress ────────────────────────────────────────────────────────────────────────────────────


def _describe_progress(course: _Course, length: ArmLength, spec: ArmSpec) -> str:
    """Describe which arm begins, and how long the trial still takes."""
    name = "unedited" if spec.side == UNEDITED else course.sides[spec.side].summary
    remaining_s = needed_s = _remaining_s(course, length)
    if course.settings.windows:
        scoreboard = course.scoreboard
        needed_s += sum(scoreboard.arm_s(side, length.arm_s) for side in (UNEDITED, *course.sides))
    time_left = (
        f"at most {format_time(course.left_s)} left"
        if needed_s > course.left_s or not remaining_s
        else f"about {format_time(needed_s)} left, {format_time(course.left_s)} at most"
    )
    return (
        f"arm {spec.index + 1} · {time_left} · {'window, ' * spec.takes_window}{spec.side}, {name}"
    )
