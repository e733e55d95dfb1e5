"""Two arms at the same time that step in turns: how their steps are cut, run, and compared."""

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final

import numpy as np

from gapless.launch.trial import isolated, turns
from gapless.launch.trial.turns import Seat
from gapless.model.recording import Recording
from gapless.model.trace import Int64
from gapless.model.trial import Arm
from gapless.verify.arms import arm
from gapless.verify.arms.arm import ArmPlan, Partner
from gapless.verify.arms.compare import Float, student_quantile
from gapless.verify.arms.steady import ArmSteps, use_device_times
from gapless.verify.specs import ArmSpec, TurnPlan

_SLICE_NS: Final = 0.12e9  # as short as settling allows: the machine changes meanwhile
_MIN_SLICES, _MAX_SLICES = 4, 64
_MIN_SLICE_STEPS: Final = 8
_SETTLING: Final = 0.1  # of a slice: steps after a pause that do not count, and …
_MIN_SETTLING: Final = 2
_DISTURBED: Final = 3.0  # times the usual spread of a pair's slices, and …
_MIN_DISTURBED: Final = 0.05  # … at least so much, beyond which the pair was disturbed
_POLL_S: Final = 0.2

RunResult = tuple[Arm, Recording | None]


def plan_turns(
    steps: ArmSteps, n_steps: int | None = None, grains: Sequence[int] = ()
) -> TurnPlan | None:
    """Return how arms of so many steps (by default, those of this one) step in turns.

    What counts of a slice are whole rounds of the workers, and whole periods of what recurs, where
    four slices of the longest of them fit: else the same part of each would be left out as
    settling. ``grains``: others that are known, in steps. ``None``: these are too few steps.
    """
    timed = use_device_times(steps)
    start = max(timed.n_warm_up + 1, min(len(timed.lengths) // 3, steps.round_steps))
    count = (n_steps or len(timed.lengths)) - start
    periods = (steps.round_steps, *steps.periods, *grains)
    grain = max(
        [1, *(grain for grain in periods if _MIN_SLICES * (grain + _MIN_SETTLING) <= count)]
    )
    min_counting = grain * math.ceil(_MIN_SLICE_STEPS / grain)
    wished = math.ceil(_SLICE_NS / float(timed.lengths[start:].mean()))
    counting = max(min_counting, grain * (max(wished, count // _MAX_SLICES) // grain))
    if _MIN_SLICES * (counting + _settling(counting)) > count:
        counting = min_counting
    slice_steps = counting + _settling(counting)
    slices = min(_MAX_SLICES, count // slice_steps // 2 * 2)
    return (
        None
        if slices < _MIN_SLICES
        else TurnPlan(start, slice_steps, slices, slice_steps - counting)
    )


def _settling(n_steps: int) -> int:
    return max(_MIN_SETTLING, math.ceil(_SETTLING * n_steps))


def slice_means(lengths: Int64, plan: TurnPlan) -> Float | None:
    """Return the mean length of a step in each slice; ``None`` where an arm has too few steps.

    ``lengths[i]`` is that of step ``i + 2``.
    """
    first = plan.start - 1
    n_steps = plan.slices * plan.slice_steps
    if len(lengths) < first + n_steps:
        return None
    slices = lengths[first : first + n_steps].reshape(plan.slices, plan.slice_steps)
    return slices[:, plan.settling :].mean(axis=1)


def run_pair(
    arms: Sequence[tuple[ArmPlan, ArmSpec]],
) -> tuple[RunResult, RunResult]:
    """Run two arms that step in turns, the first one first; return what became of each.

    Whatever interrupts this ends the processes of both. Raises what an arm raises.
    """
    seats, have_ended, cancelled = (Seat(), Seat()), threading.Event(), threading.Event()
    conductor = threading.Thread(target=turns.conduct, args=(*seats, have_ended), daemon=True)
    with isolated.interruptible(), ThreadPoolExecutor(2) as pool:
        conductor.start()
        futures = [
            pool.submit(_run, plan, spec, Partner(seat, cancelled))
            for (plan, spec), seat in zip(arms, seats, strict=True)
        ]
        try:
            first, second = (_await(future) for future in futures)
        except BaseException:
            cancelled.set()
            raise
        finally:
            for future in futures:
                with suppress(BaseException):
                    future.result()
            have_ended.set()
            conductor.join()
    return first, second


def _run(plan: ArmPlan, spec: ArmSpec, partner: Partner) -> RunResult:
    try:
        return arm.run(plan, spec, partner)
    finally:
        partner.seat.leave()


def _await(future: "Future[RunResult]") -> RunResult:
    """Return the result of an arm; woken now and then, so that an interrupt is not kept waiting."""
    while not wait([future], _POLL_S).done:
        pass
    return future.result()


def combine_pairs(pairs: Sequence[Float]) -> tuple[float, float, float] | None:
    """Return the 95 % interval of pairs that stepped in turns, by ``paired_ratios`` of each.

    Of a pair the median of the ratios of its slices: one that others disturbed counts no more than
    any other. A pair whose slices vary far more than those of the others was disturbed as a whole,
    and is left out, whatever it shows. Of the other pairs the mean, and Student's interval of it:
    processes differ by chance, by where their memory lies, say. ``None``: fewer than two pairs.
    """
    ratios = settle_pairs(pairs)
    if len(ratios) < 2:  # noqa: PLR2004 - one pair has no spread
        return None
    mid = float(np.mean(ratios))
    error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
    half_width = student_quantile(len(ratios) - 1) * error
    return mid - half_width, mid, mid + half_width


def settle_pairs(pairs: Sequence[Float]) -> list[float]:
    """Return one ratio of each pair that counts: the median of those of its slices."""
    spreads = [float(pair.std()) for pair in pairs]
    max_spread = max(_MIN_DISTURBED, _DISTURBED * float(np.median(spreads))) if spreads else 0.0
    return [
        float(np.median(pair))
        for pair, spread in zip(pairs, spreads, strict=True)
        if spread <= max_spread
    ]


def paired_ratios(before: Sequence[float] | Float, after: Sequence[float] | Float) -> Float:
    """Return the logarithms of the ratios of slices of the same steps, neighbours in time."""
    return np.log(np.array(after) / np.array(before))
