"""How long an arm must be, how many fit into the budget, and in which order they are run."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Final

from msgspec import Struct

from gapless.model.edit import SetArgument
from gapless.verify.arms.steady import ArmSteps
from gapless.verify.specs import UNEDITED, ArmSpec, Candidate

MIN_PAIRS: Final = 2  # of each side: one pair has no interval
_NS: Final = 1e9
_WANTED_NS: Final = 4e9  # of steady steps, in an arm
_WANTED_STEPS: Final = 30  # steps
_MIN_NS: Final = 1e9  # of steady steps, where time is short
_MIN_STEPS: Final = 4  # steps, however slow they are
_WANTED_ROUNDS: Final = 3  # of workers × prefetch batches
_WANTED_PERIODS: Final = 4  # of what recurs
_MAX_WARM_UP: Final = 60  # steps of warm-up, at most; and at most half of what is measured
# times as slow as the unedited training may a side be before it is cut short
_MAX_SLOWDOWN: Final = 3
_COMPILING_S: Final = 15.0  # and may take so much longer until it is warm
_FIRST_STEPS: Final = 1000
_FIRST_SHARE: Final = 20  # of the budget, for the steps of the first arm
_GROUP_SIDES: Final = 3  # sides that share an unedited neighbour
_DEFAULT_PREFETCH: Final = 2  # torch's own


class ArmLength(Struct, frozen=True):
    """How long an arm is; ``needed_s``: what two pairs need, where the budget is too small."""

    stop_step: int
    seconds: float
    step_ns: float  # by which it was planned
    arm_s: float  # expected for the unedited one
    window_stop_step: int  # of an arm that takes a window after it
    pairs: int  # of each side, for which the budget suffices
    needed_s: float | None = None
    uncovered_periods: tuple[int, ...] = ()  # periods, in steps, that no arm is long enough for


def first_arm(budget_s: float, steps: int | None = None) -> ArmSpec:
    """Return the arm that is discarded: it shows how long the others must be, if need be."""
    return ArmSpec(UNEDITED, 0, (), steps or _FIRST_STEPS, budget_s / _FIRST_SHARE)


class LengthInputs(Struct, frozen=True):
    """What the first arm showed, and the remaining budget."""

    arm_steps: ArmSteps
    step_ns: float
    overhead_s: float  # of an arm: start and end
    left_s: float
    has_turns: bool  # the job has epoch turns
    fixed_steps: int | None = None  # of an arm, as requested by the user
    pairs: int = 3


def plan_length(inputs: LengthInputs, candidates: Sequence[Candidate]) -> ArmLength:
    """Return how long arms are, so that so many pairs of each side fit into what is left.

    Four seconds and thirty steps, three rounds of the workers, four periods of what recurs: as much
    of this as fits, at least four seconds or thirty steps. If that does not fit: one second, four
    steps and one round; then two pairs. Less than that is never enough.
    """
    counts = dict.fromkeys((max(MIN_PAIRS, inputs.pairs), MIN_PAIRS))
    variants = product(counts, (False, True))
    lengths = [_plan_length(inputs, candidates, pairs, short=short) for pairs, short in variants]
    return next((length for length in lengths if length.needed_s is None), lengths[-1])


def _plan_length(
    inputs: LengthInputs, candidates: Sequence[Candidate], pairs: int, *, short: bool
) -> ArmLength:
    step_s = inputs.step_ns / _NS
    arms = pairs * sum(map(len, order_turn(0, name_sides(candidates))))
    room_s = inputs.left_s / arms - inputs.overhead_s
    round_steps = max(inputs.arm_steps.round_steps, *map(count_own_round, candidates))
    rounds_steps = _WANTED_ROUNDS * round_steps
    wanted_steps = math.ceil(_WANTED_NS / inputs.step_ns)
    min_steps = max(math.ceil(_MIN_NS / inputs.step_ns), _MIN_STEPS)
    base_steps = (
        max(min_steps, round_steps)
        if short
        else max(min_steps, min(wanted_steps, _WANTED_STEPS), rounds_steps)
    )
    max_steps = math.floor(room_s / step_s / 1.5)  # at most another half is warm-up
    steps = max(base_steps, min(max(wanted_steps, _WANTED_STEPS, rounds_steps), max_steps))
    for period in sorted(inputs.arm_steps.periods):
        steps = next(
            (n * period for n in (_WANTED_PERIODS, 1) if steps < n * period <= max_steps), steps
        )
    stop = steps + min(_MAX_WARM_UP, steps // 2) + 1
    epoch = inputs.arm_steps.epoch
    if inputs.fixed_steps is not None:
        stop = inputs.fixed_steps
    elif (
        inputs.has_turns and epoch is not None and stop < epoch + 1 < min(2 * stop, room_s / step_s)
    ):
        stop = epoch + 2
    arm_s = inputs.overhead_s + stop * step_s
    return ArmLength(
        stop_step=stop,
        seconds=_MAX_SLOWDOWN * stop * step_s + _COMPILING_S,
        step_ns=inputs.step_ns,
        arm_s=arm_s,
        window_stop_step=min(stop, _MAX_WARM_UP + rounds_steps),
        pairs=pairs,
        needed_s=arms * arm_s if (arms - 1) * arm_s > inputs.left_s else None,
        uncovered_periods=tuple(
            sorted({period for period in inputs.arm_steps.periods if period > stop})
        ),
    )


def count_own_round(candidate: Candidate) -> int:
    """Return the batches of a round that a candidate's own workers make."""
    arguments = {
        edit.name: edit.value
        for edit in candidate.edits
        if isinstance(edit, SetArgument) and isinstance(edit.value, int)
    }
    return int(arguments.get("num_workers") or 0) * int(
        arguments.get("prefetch_factor") or _DEFAULT_PREFETCH
    )


def name_sides(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Name the sides by letters from B; after Z they are numbered."""
    letters = "BCDEFGHIJKLMNOPQRSTUVWXYZ"
    rounds = (divmod(index, len(letters)) for index in range(len(candidates)))
    return tuple(letters[index] + (str(cycle + 1) if cycle else "") for cycle, index in rounds)


def order_turn(number: int, sides: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the arms of one turn in order, in groups; a group's sides share its unedited arm.

    Turns are run forwards and backwards as the Thue-Morse sequence says (A B B A B A A B for one
    side), which balances drift; with every second turn, the sides' positions rotate.
    """
    if not sides:
        return ()
    shift = number // 2 % len(sides)
    rotated = (*sides[shift:], *sides[:shift])
    is_reversed = bool(number.bit_count() % 2)
    groups = [
        (UNEDITED, *rotated[index : index + _GROUP_SIDES])
        for index in range(0, len(rotated), _GROUP_SIDES)
    ]
    return tuple(tuple(reversed(group)) if is_reversed else group for group in groups)
