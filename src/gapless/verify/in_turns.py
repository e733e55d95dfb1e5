"""Pairs of arms that step in turns: a machine that changes in seconds changes for both alike."""

from typing import Final

from msgspec.structs import replace

from gapless.verify.arms.alternating import plan_turns, slice_means
from gapless.verify.arms.results import ArmResult
from gapless.verify.course import Course, describe_progress, fits, give_up
from gapless.verify.lengths import ArmLength
from gapless.verify.specs import OUT_OF_MEMORY, UNEDITED, ArmSpec, TurnPlan

_MIN_PAIRS: Final = 3  # of each side: two have no interval worth the name
_MIN_SLICES: Final = 5  # periods of what recurs, in an arm
_MAX_PAIR_S: Final = 600.0  # of a pair, pauses included
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
    settings, steps = course.settings, course.results[-1].steps
    if settings.run_pair is None or settings.steps is not None or steps is None:
        return None
    needed_s = 2 * length.arm_s * len(course.sides) * max(_MIN_PAIRS, settings.pairs)
    has_rare_work = any(_MIN_SLICES * period > length.stop_step for period in steps.periods)
    if needed_s > course.left_s or has_rare_work:
        return None
    turns = plan_turns(steps, length.stop_step)
    course.notes.extend([_IN_TURNS] * (turns is not None))
    return turns


def run_pairs(course: Course, length: ArmLength, turns: TurnPlan) -> bool:
    """Run pairs until all sides are decided or time is over; return whether that was possible.

    Where the first pair fails, or an unedited arm, or memory does not suffice, nothing is kept.
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
            _MAX_PAIR_S,
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
    is_own_fault = failed == [results[side]] and failed[0].failure not in {None, OUT_OF_MEMORY}
    if not is_own_fault or not course.scoreboard.counted_results:
        return None
    unpaired = replace(results[UNEDITED], why_discarded="the other arm of its pair failed")
    return [unpaired, results[side]]


def _has_slices(result: ArmResult, turns: TurnPlan) -> bool:
    steps = result.steps
    return (
        result.failure is None
        and steps is not None
        and slice_means(steps.lengths, turns) is not None
    )
