"""Pairs of arms that step in turns: a machine that changes in seconds changes for both alike."""

from typing import Final

from msgspec.structs import replace

from gapless.verify.arms.alternating import plan_turns, slice_means
from gapless.verify.arms.results import ArmResult
from gapless.verify.arms.switchable import is_occasional
from gapless.verify.course import Course, describe_progress, fits, give_up
from gapless.verify.lengths import ArmLength, count_own_round
from gapless.verify.specs import OUT_OF_MEMORY, UNEDITED, ArmSpec, TurnPlan

_MIN_PAIRS: Final = 3  # of each side: two have no interval worth the name
_MIN_SLICES: Final = 5  # periods of what recurs, in an arm
_ENDED_SHARE: Final = 0.9  # of its time
_MAX_SIDES: Final = 1000
_IN_TURNS: Final = "the arms of each pair ran at the same time, and stepped in turns"
_ONE_BY_ONE: Final = "arms were run one after the other: two of them could not run at the same time"


def plan_pairs(course: Course, length: ArmLength) -> TurnPlan | None:
    """Return how the arms of pairs step in turns, by the first arm.

    ``None``: they run one after the other, since two cannot run at the same time, steps are too
    few, what recurs does so too rarely for slices (the median of which would not see it), or the
    budget does not hold the pairs that are wanted of each side: an unedited arm is a neighbour of
    one side alone.
    """
    settings, first_arm = course.settings, course.results[-1]
    steps = first_arm.steps
    if settings.run_pair is None or settings.steps is not None or steps is None:
        return None
    periods = {*steps.periods, *settings.periods}
    has_rare_work = any(_MIN_SLICES * period > length.stop_step for period in periods)
    needed_s = 2 * length.arm_s * len(course.sides) * max(_MIN_PAIRS, settings.pairs)
    edits = [edit for candidate in course.sides.values() for edit in candidate.edits]
    if needed_s > course.left_s or has_rare_work or any(map(is_occasional, edits)):
        return None
    n_steps = length.stop_step
    if _ended_by_itself(first_arm):
        n_steps = min(n_steps, len(steps.ends))
    rounds = map(count_own_round, course.sides.values())
    turns = plan_turns(steps, n_steps, (*rounds, *settings.periods))
    course.notes.extend([_IN_TURNS] * (turns is not None))
    return turns


def _ended_by_itself(result: ArmResult) -> bool:
    """Return whether an arm had no more steps: it left neither for their number nor for time."""
    if result.steps is None:
        return True
    ends = result.steps.ends
    stepping_s = float(ends[-1] - ends[0]) / 1e9
    return len(ends) < result.spec.stop_step and stepping_s < _ENDED_SHARE * result.spec.seconds


def run_pairs(course: Course, length: ArmLength, turns: TurnPlan) -> bool:
    """Run pairs until all sides are decided or time is over; return whether that was possible.

    Where the first pair fails, or memory does not suffice, nothing is kept.
    """
    first_arm = course.results[-1]
    number = 0
    while sides := course.open_sides():
        for index, side in enumerate(sides):
            if not fits(course, length, (UNEDITED, side), length.arm_s):
                return True
            results = _run_pair(course, length, turns, (side, _MAX_SIDES * number + index))
            if results is None:
                course.results[:] = [first_arm]
                course.hidden_sides.clear()
                course.notes[:] = [note for note in course.notes if note != _IN_TURNS]
                course.notes.append(_ONE_BY_ONE)
                return False
            course.results.extend(results)
            if course.scoreboard.is_lost(UNEDITED):
                return True
        number += 1
        give_up(course, length)
    return True


def _run_pair(
    course: Course, length: ArmLength, turns: TurnPlan, side_and_turn: tuple[str, int]
) -> list[ArmResult] | None:
    """Run an unedited arm and one of a side; ``None``: they cannot run at the same time."""
    side, turn = side_and_turn
    settings = course.settings
    if settings.run_pair is None:
        return None
    is_reversed = (turn // _MAX_SIDES).bit_count() % 2
    order = (side, UNEDITED) if is_reversed else (UNEDITED, side)
    specs = [
        ArmSpec(
            name,
            len(course.results) + position,
            course.sides[name].edits if name in course.sides else (),
            turns.stop_step,
            2 * length.seconds,  # pauses included
            turns=turns,
            has_first_turn=position == 0,
        )
        for position, name in enumerate(order)
    ]
    course.report_progress(describe_progress(course, length, specs[is_reversed ^ 1]))
    before_s = settings.clock()
    runs = settings.run_pair(*specs)
    took_s = (settings.clock() - before_s) / len(specs)
    results = {
        spec.side: course.arm_result(spec, turn, run, took_s)
        for spec, run in zip(specs, runs, strict=True)
    }
    failed = [result for result in results.values() if not _has_slices(result, turns)]
    if not failed:
        return list(results.values())
    is_memory = any(result.failure == OUT_OF_MEMORY for result in failed)
    if is_memory or not course.scoreboard.counted_results:
        return None
    return [
        replace(result, why_discarded=result.failure or "its pair has no slices of the same steps")
        for result in results.values()
    ]


def _has_slices(result: ArmResult, turns: TurnPlan) -> bool:
    steps = result.steps
    return (
        result.failure is None
        and steps is not None
        and slice_means(steps.lengths, turns) is not None
    )
