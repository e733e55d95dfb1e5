"""The steady steps of an arm, and what comes before, between and after them.

Which steps count is decided once for all arms of a trial, so that the same are compared.
"""

from collections.abc import Iterator, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from gapless import wire
from gapless.model.recording import Recording
from gapless.model.trace import Int64
from gapless.recorded.machine.footprint import OCCASIONS
from gapless.recorded.machine.processors import processor_limits
from gapless.recorded.machine.samples import measure_contention
from gapless.recorded.training.processes import Training, select_steppers, trainings
from gapless.verify.arms.loader_rounds import ArmLoader, fact_values, read_arm_loader

_MIN_STEPS: Final = 10  # steps of warm-up, and of a block, at least
_MAX_WARM_UP: Final = 60  # steps of warm-up
_WARM_UP_DIVISOR: Final = 3  # and at most one step in so many
_MEDIAN_STEPS: Final = 5  # steps of each median that decides whether the warm-up is over
_MAX_MEDIAN_SPREAD: Final = 0.02
_MIN_BLOCKS: Final = 4  # blocks from which the median is taken: with fewer it is the mean
_MAX_UNMARKED_SHARE: Final = 0.02  # of all steps, after the device's last mark
_RECURRING_MARKS: Final = (  # kinds of marks, and the value of those that count
    *((kind, None) for _, kind in OCCASIONS),
    (wire.MODE, 0),
)
Float = npt.NDArray[np.float64]


class ArmSteps(Struct, frozen=True):
    """The steps of one arm; ``lengths[i]`` is that of step ``i + 2``, epoch turns taken out."""

    lengths: Int64
    ends: Int64  # of all steps; one more than lengths
    n_warm_up: int  # lengths before the steady ones, by the rule
    round_steps: int  # steps that a round of the workers' prefetched batches feeds
    periods: tuple[int, ...]  # of what recurs in steps: checkpoints, logging, evaluation …
    samples: float | None  # a step
    epoch: int | None  # steps
    start_ns: int  # from the start of the process to the end of the first step
    first_batch_ns: int | None
    turn_ns: int | None  # mean
    turns_ns: Int64  # for each length, what an epoch turn took there
    exit_ns: int | None
    foreign: float | None
    device_lengths: Int64 | None = None  # as ``lengths``, at the device's own step ends


class SteadyRange(Struct, frozen=True):
    """The lengths that count in every arm, from a first one to before a last one, in blocks."""

    start: int
    stop: int
    block_steps: int

    @property
    def steps(self) -> tuple[int, int]:
        """Return the first and the last step that count, from 1."""
        return self.start + 2, self.stop + 1


def read_steps(recording: Recording) -> ArmSteps | None:
    """Return the steps of an arm, those of its first rank; ``None`` where nothing stepped twice."""
    stepping = select_steppers(trainings(recording))
    return _read_steps(stepping[0], recording) if stepping else None


def _read_steps(training: Training, recording: Recording) -> ArmSteps | None:
    ends = _find_step_ends(training)
    if len(ends) < 2:  # noqa: PLR2004 - a length needs two
        return None
    loader = read_arm_loader(training, ends)
    pauses = _read_pauses(training)
    lengths = np.diff(_find_step_ends(training, pauses)) - loader.turns_ns
    device_ends = _device_ends(training, ends, pauses)
    return ArmSteps(
        lengths=lengths,
        ends=ends,
        n_warm_up=count_warm_up(lengths),
        round_steps=loader.round_steps,
        periods=tuple(_find_periods(training, ends)),
        samples=loader.samples,
        epoch=loader.epoch,
        start_ns=int(ends[0]) - training.start,
        first_batch_ns=loader.first_batch_ns,
        turn_ns=_mean_turn(loader),
        turns_ns=loader.turns_ns,
        exit_ns=_measure_exit(training, int(ends[-1])),
        foreign=_foreign_share(training, recording),
        device_lengths=None if device_ends is None else _remove_turns(device_ends, loader.turns_ns),
    )


def use_device_times(steps: ArmSteps) -> ArmSteps:
    """Return the same steps with the device's lengths as the counting ones, where it has them."""
    if steps.device_lengths is None:
        return steps
    return replace(
        steps, lengths=steps.device_lengths, n_warm_up=count_warm_up(steps.device_lengths)
    )


def _read_pauses(training: Training) -> tuple[Int64, Int64]:
    """Return when another arm had its turn: the starts, and how long all were up to each."""
    marks = training.process.marks
    rows = np.flatnonzero((marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_TURN))
    starts = marks.start[rows]
    return starts, np.concatenate(([0], np.cumsum(marks.end[rows] - starts)))


def _stepping_time(times: Int64, pauses: tuple[Int64, Int64]) -> Int64:
    """Return times without the pauses before them."""
    starts, sums_ns = pauses
    return times - sums_ns[np.searchsorted(starts, times)]


def _device_ends(training: Training, ends: Int64, pauses: tuple[Int64, Int64]) -> Int64 | None:
    """Return when the device came to the end of each step; ``None`` where that was not marked.

    A host that runs ahead ends its steps long before its device does, so its times are those of
    launches. Edges between two marks lie in equal parts between them; before the first mark the
    host's ends count. Also ``None`` where more than a few steps come after the last mark: their
    device was still at work when the process ended.
    """
    marks = training.process.marks
    rows = np.flatnonzero(marks.kind == wire.DEVICE_EDGE)
    mark_steps = np.searchsorted(ends, marks.start[rows])
    if len(rows) < 2 or _has_unmarked_end(ends, mark_steps):  # noqa: PLR2004
        return None
    first_step = int(mark_steps[0])
    paused_ns = marks.start[rows] - _stepping_time(marks.start[rows], pauses)
    elapsed = marks.value[rows] - (paused_ns - paused_ns[0])
    elapsed_ns = cast("Float", np.interp(np.arange(first_step, len(ends)), mark_steps, elapsed))
    last_index = int(mark_steps[-1]) - first_step  # the last part continues as the mean of all
    mean = (int(elapsed[-1]) - int(elapsed[0])) / max(1, last_index)
    elapsed_ns[last_index:] += mean * np.arange(len(elapsed_ns) - last_index)
    return np.concatenate(
        (ends[:first_step], ends[first_step] + np.rint(elapsed_ns).astype(np.int64))
    )


def _has_unmarked_end(ends: Int64, mark_steps: Int64) -> bool:
    """Return whether more steps lie after the last mark than the spacing of marks explains."""
    return len(ends) - 1 - int(mark_steps[-1]) > max(1.0, _MAX_UNMARKED_SHARE * len(ends))


def _remove_turns(device_ends: Int64, turns_ns: Int64) -> Int64:
    """Return the device's step lengths without the epoch turns that it waited for.

    Its remaining work hides a part of a turn, so no step gets shorter than the usual one.
    """
    lengths = np.diff(device_ends)
    excess_ns = np.maximum(0, lengths - int(np.median(lengths)))
    return lengths - np.minimum(turns_ns, excess_ns)


def _find_step_ends(training: Training, pauses: tuple[Int64, Int64] | None = None) -> Int64:
    """Return the end of each step, with ``pauses`` as if these took no time.

    Those that were summed lie in equal parts between known ends.
    """
    edges = training.edges
    rows = np.flatnonzero(edges.step_counts > 0)
    known_ends = np.concatenate((edges.ends[:1], edges.ends[rows + 1]))
    if pauses is not None:
        known_ends = _stepping_time(known_ends, pauses)
    step_numbers = np.concatenate(([0], np.cumsum(edges.step_counts[rows])))
    offsets_ns = cast(
        "Float",
        np.interp(np.arange(int(step_numbers[-1]) + 1), step_numbers, known_ends - known_ends[0]),
    )
    return known_ends[0] + np.rint(offsets_ns).astype(np.int64)


def count_warm_up(lengths: Int64) -> int:
    """Count the lengths that are left out, by a rule that is blind to the result.

    The first ten, and until three medians of five steps each, one after another, agree within 2 %;
    sixty or a third of all at most.
    """
    cap = min(_MAX_WARM_UP, len(lengths) // _WARM_UP_DIVISOR)
    for start in range(_MIN_STEPS, cap, _MEDIAN_STEPS):
        stretch = lengths[start : start + 3 * _MEDIAN_STEPS]
        medians = np.median(stretch.reshape(3, _MEDIAN_STEPS), axis=1)
        if medians.max() <= (1 + _MAX_MEDIAN_SPREAD) * medians.min():
            return start
    return cap


def _find_periods(training: Training, ends: Int64) -> Iterator[int]:
    """Return how many steps lie between checkpoints, between calls of loggers, and so on."""
    if training.edges.passes is not None:
        yield training.edges.passes  # between steps of the optimizer
    marks = training.process.marks
    for kind, value in _RECURRING_MARKS:
        rows = (marks.kind == kind) & (marks.start < ends[-1])
        if value is not None:
            rows &= marks.value == value
        steps = np.unique(np.searchsorted(ends, marks.start[rows]))
        if len(steps) > 1:
            yield int(np.median(np.diff(steps)))


def _mean_turn(loader: ArmLoader) -> int | None:
    turns = loader.turns_ns[loader.turns_ns > 0]
    return round(float(turns.mean())) if len(turns) else None


def _measure_exit(training: Training, last_end_ns: int) -> int | None:
    """Return what followed the last step; ``None`` if no loader was closed or no end is known."""
    marks = training.process.marks
    is_close = (marks.kind == wire.CLOSE) & (marks.start >= last_end_ns)
    if training.process.end is None or not is_close.any():
        return None
    return max(training.process.end, int(marks.end[is_close].max())) - last_end_ns


def _foreign_share(training: Training, recording: Recording) -> float | None:
    """Return the share of the arm's processors that others took while it stepped."""
    times_ns, _ = recording.samples.series.get("cpu.foreign", (np.empty(0, np.int64), ()))
    start_ns, end_ns = training.edges.ends[0], training.edges.ends[-1]
    if not ((times_ns >= start_ns) & (times_ns <= end_ns)).any():
        return None
    contention = measure_contention(
        recording.samples,
        processor_limits([fact_values(training, "machine", 0)]),
        (start_ns, end_ns),
    )
    if contention is None or not contention.processors:
        return None
    return contention.cores / contention.processors


def find_steady_range(arms: Sequence[tuple[str, ArmSteps]]) -> SteadyRange:
    """Return the range of steps that counts in all of some arms, by side.

    It begins where the side with the longest warm-up, the median of its arms, is warm, and holds
    whole blocks: of at least ten steps, of whole rounds of the workers, and of whole periods of
    what recurs, as far as they fit.
    """
    sides = {side for side, _ in arms}
    warm_ups = [
        float(np.median([steps.n_warm_up for arm_side, steps in arms if arm_side == side]))
        for side in sides
    ]
    count = min(len(steps.lengths) for _, steps in arms)
    start = min(round(max(warm_ups)), count // _WARM_UP_DIVISOR)
    available_steps = count - start
    longest_grain = max([1, *(grain for grain in _list_grains(arms) if grain <= available_steps)])
    block_steps = min(available_steps, longest_grain * -(-_MIN_STEPS // longest_grain))
    return SteadyRange(start, start + available_steps // block_steps * block_steps, block_steps)


def _list_grains(arms: Sequence[tuple[str, ArmSteps]]) -> Iterator[int]:
    for _, steps in arms:
        yield steps.round_steps
        yield from steps.periods


def block_means(steps: ArmSteps, steady_range: SteadyRange) -> Float:
    """Return the mean length of a step in each block, in ns."""
    return (
        steps.lengths[steady_range.start : steady_range.stop]
        .reshape(-1, steady_range.block_steps)
        .mean(axis=1)
    )


def step_time(blocks: Float) -> float:
    """Return the time of a step: the median over four blocks or more, else their mean."""
    return float(step_times(blocks[None])[0])


def step_times(blocks: Float) -> Float:
    """Return the same for each row of blocks."""
    has_many = blocks.shape[1] >= _MIN_BLOCKS
    return np.median(blocks, axis=1) if has_many else blocks.mean(axis=1)


def settling_ns(arm_steps: ArmSteps, steady_range: SteadyRange, step_ns: float) -> float:
    """Return what starting took beyond steady steps, up to where these are measured."""
    n_steps = steady_range.start + 1
    elapsed_ns = arm_steps.start_ns + int(arm_steps.ends[steady_range.start] - arm_steps.ends[0])
    return elapsed_ns - int(arm_steps.turns_ns[: steady_range.start].sum()) - n_steps * step_ns
