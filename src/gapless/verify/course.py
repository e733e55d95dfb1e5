"""A running trial: what is requested, and what was run so far."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.verify import reach
from gapless.verify.arms.results import ArmResult, Scoreboard, make_scoreboard
from gapless.verify.arms.steady import read_steps
from gapless.verify.budget import format_time
from gapless.verify.lengths import ArmLength
from gapless.verify.specs import UNEDITED, ArmRun, ArmSpec, Candidate, RunArm, TrialSettings

Progress = Callable[[str], None]


class Course(Struct, frozen=True):
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
        """Return the budget that holds."""
        return self.budgets[-1]

    @property
    def spent_s(self) -> float:
        """Return what was spent of it."""
        return self.settings.clock() - self.start_s

    @property
    def left_s(self) -> float:
        """Return what is left of it."""
        return self.budget_s - self.spent_s

    @property
    def scoreboard(self) -> Scoreboard:
        """Return what the arms so far show."""
        return make_scoreboard(self.results)

    def open_sides(self) -> tuple[str, ...]:
        """Return the sides that need more arms."""
        scoreboard, pairs = self.scoreboard, self.settings.pairs
        return tuple(
            name
            for name, candidate in self.sides.items()
            if name not in self.hidden_sides and not scoreboard.is_over(name, candidate, pairs)
        )

    def arm_result(self, spec: ArmSpec, turn: int | None, run: ArmRun, took_s: float) -> ArmResult:
        """Return the result of an arm that was run; one that failed does not count."""
        steps = None if run.recording is None else read_steps(run.recording)
        result = ArmResult(spec, turn, run, steps, None, took_s)
        return replace(result, why_discarded=result.failure)


def give_up(course: Course, length: ArmLength) -> None:
    """Drop sides that the noise so far will hide for as long as time is left."""
    scoreboard, sides = course.scoreboard, course.open_sides()
    n_unedited = max(1, len(sides)) if scoreboard.in_turns else 1
    turn_s = sum(
        scoreboard.arm_s(side, length.arm_s) for side in ((UNEDITED,) * n_unedited + sides)
    )
    judged_by_verdict = [name for name in sides if course.sides[name].max_half_width is None]
    hidden_gains = reach.find_hidden_sides(
        scoreboard, judged_by_verdict, int(course.left_s / turn_s)
    )
    if hidden_gains:
        course.hidden_sides.update(hidden_gains)
        course.notes.append(reach.explain_hidden_sides(hidden_gains, scoreboard, course.budget_s))


def fits(course: Course, length: ArmLength, arms: Sequence[str], over_s: float = 0.0) -> bool:
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


def remaining_s(course: Course, length: ArmLength) -> float:
    """Return how long the turns take that are still needed."""
    scoreboard = course.scoreboard
    n_missing = max(
        (length.pairs - len(scoreboard.pairs(side)) for side in course.open_sides()), default=0
    )
    live_sides = [side for side in (UNEDITED, *course.sides) if not scoreboard.is_lost(side)]
    return max(0, n_missing) * sum(scoreboard.arm_s(side, length.arm_s) for side in live_sides)


def describe_progress(course: Course, length: ArmLength, spec: ArmSpec) -> str:
    """Describe which arm begins, and how long the trial still takes."""
    name = "unedited" if spec.side == UNEDITED else course.sides[spec.side].summary
    missing_s = needed_s = remaining_s(course, length)
    if course.settings.windows:
        scoreboard = course.scoreboard
        needed_s += sum(scoreboard.arm_s(side, length.arm_s) for side in (UNEDITED, *course.sides))
    time_left = (
        f"at most {format_time(course.left_s)} left"
        if needed_s > course.left_s or not missing_s
        else f"about {format_time(needed_s)} left, {format_time(course.left_s)} at most"
    )
    arms = f"arm {spec.index + 1}"
    if spec.turns is not None:
        arms = f"arms {len(course.results) + 1} and {len(course.results) + 2}, in turns"
    return f"{arms} · {time_left} · {'window, ' * spec.takes_window}{spec.side}, {name}"
