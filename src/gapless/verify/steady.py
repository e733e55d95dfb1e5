"""The steady steps of an arm, and what comes before, between and after them.

Which steps count is decided once for all arms of a trial, so that the same are compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from gapless import wire
from gapless.model.recording import Recording
from gapless.model.trace import Int64
from gapless.study.recorded.footprint import OCCASIONS
from gapless.study.recorded.machine import others
from gapless.study.recorded.processors import room
from gapless.study.recorded.training import Training, steppers, trainings
from gapless.verify.feeding import Feed, feed, told

_LEAST: Final = 10  # steps of warm-up, and of a block, at least
_MOST: Final = 60  # steps of warm-up
_SHARE: Final = 3  # and at most one step in so many
_MEDIANS: Final = 5  # steps of each median that tells whether the warm-up is over
_ALIKE: Final = 0.02
_BLOCKS: Final = 4  # from which their median is taken: fewer have a mean
_UNMARKED: Final = 0.02  # of all steps, behind the device's last mark
_RECURS: Final = (  # kinds of marks, and the value of those that count
    *((kind, None) for _, kind in OCCASIONS),
    (wire.MODE, 0),
)
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stepped:
    """The steps of one arm; ``lengths[i]`` is that of step ``i + 2``, epoch turns taken out."""

    lengths: Int64
    ends: Int64  # of all steps; one more than lengths
    warm: int  # lengths before the steady ones, by the rule
    round: int  # steps that a round of the workers' prefetched batches feeds
    periods: tuple[int, ...]  # of what recurs in steps: checkpoints, logging, evaluation …
    samples: float | None  # a step
    epoch: int | None  # steps
    start_ns: int  # from the start of the process to the end of the first step
    first_batch_ns: int | None
    turn_ns: int | None  # mean
    turned: Int64  # in each length's place, what an epoch turn took there
    exit_ns: int | None
    foreign: float | None
    device_lengths: Int64 | None = None  # as ``lengths``, at the device's own step ends


@dataclass(frozen=True)
class Range:
    """The lengths that count in every arm, from ``first`` to before ``last``, in blocks."""

    first: int
    last: int
    block: int

    @property
    def steps(self) -> tuple[int, int]:
        """Give the first and the last step that count, from 1."""
        return self.first + 2, self.last + 1


def stepped(recording: Recording) -> Stepped | None:
    """Give the steps of an arm, those of its first rank; ``None`` where nothing stepped twice."""
    every = steppers(trainings(recording))
    return _stepped(every[0], recording) if every else None


def _stepped(training: Training, recording: Recording) -> Stepped | None:
    ends = _each(training)
    if len(ends) < 2:  # noqa: PLR2004 - a length needs two
        return None
    found = feed(training, ends)
    lengths = np.diff(ends) - found.turned
    device_ends = _device_ends(training, ends)
    return Stepped(
        lengths=lengths,
        ends=ends,
        warm=warm_up(lengths),
        round=found.round,
        periods=tuple(_periods(training, ends)),
        samples=found.samples,
        epoch=found.epoch,
        start_ns=int(ends[0]) - training.start,
        first_batch_ns=found.first_ns,
        turn_ns=_mean(found),
        turned=found.turned,
        exit_ns=_exit(training, int(ends[-1])),
        foreign=_foreign(training, recording),
        device_lengths=None if device_ends is None else _less_turns(device_ends, found.turned),
    )


def timed_on_device(steps: Stepped) -> Stepped:
    """Return the same steps with the device's lengths as those that count, where it has them."""
    if steps.device_lengths is None:
        return steps
    return replace(steps, lengths=steps.device_lengths, warm=warm_up(steps.device_lengths))


def _device_ends(training: Training, ends: Int64) -> Int64 | None:
    """Return when the device came to the end of each step; ``None`` where that was not marked.

    A host that runs ahead ends its steps long before its device does, so its times are those of
    launches. Edges between two marks lie in equal parts between them; before the first mark the
    host's ends stand. ``None``, too, where steps behind the last mark are more than a few: their
    device was still at work when the process ended.
    """
    marks = training.process.marks
    rows = np.flatnonzero(marks.kind == wire.DEVICE_EDGE)
    places = np.searchsorted(ends, marks.start[rows])
    if len(rows) < 2 or _unmarked(ends, places):  # noqa: PLR2004
        return None
    first = int(places[0])
    elapsed = cast("Float", np.interp(np.arange(first, len(ends)), places, marks.value[rows]))
    behind = int(places[-1]) - first  # the last link goes on as the mean of all
    mean = (int(marks.value[rows][-1]) - int(marks.value[rows][0])) / max(1, behind)
    elapsed[behind:] += mean * np.arange(len(elapsed) - behind)
    return np.concatenate((ends[:first], ends[first] + np.rint(elapsed).astype(np.int64)))


def _unmarked(ends: Int64, places: Int64) -> bool:
    """Tell whether more steps lie behind the last mark than the spacing of marks explains."""
    return len(ends) - 1 - int(places[-1]) > max(1.0, _UNMARKED * len(ends))


def _less_turns(device_ends: Int64, turned: Int64) -> Int64:
    """Return the device's step lengths without the epoch turns that it waited for.

    What it still had to do hides a part of a turn, so no step gets shorter than the usual one.
    """
    lengths = np.diff(device_ends)
    beyond = np.maximum(0, lengths - int(np.median(lengths)))
    return lengths - np.minimum(turned, beyond)


def _each(training: Training) -> Int64:
    """Give the end of each step; those that were summed lie in equal parts between known ends."""
    edges = training.edges
    rows = np.flatnonzero(edges.many > 0)
    known = np.concatenate((edges.ends[:1], edges.ends[rows + 1]))
    place = np.concatenate(([0], np.cumsum(edges.many[rows])))
    after = cast("Float", np.interp(np.arange(int(place[-1]) + 1), place, known - known[0]))
    return known[0] + np.rint(after).astype(np.int64)


def warm_up(lengths: Int64) -> int:
    """Count the lengths that are left out, by a rule that knows nothing of the result.

    The first ten, and until three medians of five steps each, one after another, agree within 2 %;
    sixty or a third of all at most.
    """
    cap = min(_MOST, len(lengths) // _SHARE)
    for at in range(_LEAST, cap, _MEDIANS):
        some = lengths[at : at + 3 * _MEDIANS]
        medians = np.median(some.reshape(3, _MEDIANS), axis=1)
        if medians.max() <= (1 + _ALIKE) * medians.min():
            return at
    return cap


def _periods(training: Training, ends: Int64) -> Iterator[int]:
    """Give how many steps lie between checkpoints, between calls of loggers, and so on."""
    marks = training.process.marks
    for kind, value in _RECURS:
        rows = (marks.kind == kind) & (marks.start < ends[-1])
        if value is not None:
            rows &= marks.value == value
        at = np.unique(np.searchsorted(ends, marks.start[rows]))
        if len(at) > 1:
            yield int(np.median(np.diff(at)))


def _mean(found: Feed) -> int | None:
    turns = found.turned[found.turned > 0]
    return round(float(turns.mean())) if len(turns) else None


def _exit(training: Training, last: int) -> int | None:
    """Give what followed the last step; ``None`` where no loader was closed or no end is known."""
    marks = training.process.marks
    closed = (marks.kind == wire.CLOSE) & (marks.start >= last)
    if training.process.end is None or not closed.any():
        return None
    return max(training.process.end, int(marks.end[closed].max())) - last


def _foreign(training: Training, recording: Recording) -> float | None:
    """Give what others took of the arm's processors while it stepped, as a share of them."""
    at, _ = recording.samples.series.get("cpu.foreign", (np.empty(0, np.int64), ()))
    first, last = training.edges.ends[0], training.edges.ends[-1]
    if not ((at >= first) & (at <= last)).any():
        return None
    taken = others(recording.samples, room([told(training, "machine", 0)]), (first, last))
    if taken is None or not taken.processors:
        return None
    return taken.cores / taken.processors


def measured(every: Sequence[tuple[str, Stepped]]) -> Range:
    """Give the range of steps that counts in all of some arms, by side.

    It begins where the side with the longest warm-up, the median of its arms, is warm, and holds
    whole blocks: of ten steps at least, of whole rounds of the workers, and of whole periods of
    what recurs, as far as they fit.
    """
    sides = {side for side, _ in every}
    warm = [float(np.median([one.warm for of, one in every if of == side])) for side in sides]
    count = min(len(one.lengths) for _, one in every)
    first = min(round(max(warm)), count // _SHARE)
    room = count - first
    longest = max([1, *(one for one in _grains(every) if one <= room)])
    block = min(room, longest * -(-_LEAST // longest))
    return Range(first, first + room // block * block, block)


def _grains(every: Sequence[tuple[str, Stepped]]) -> Iterator[int]:
    for _, one in every:
        yield one.round
        yield from one.periods


def blocks(one: Stepped, chosen: Range) -> Float:
    """Give the mean length of a step in each block, in ns."""
    return one.lengths[chosen.first : chosen.last].reshape(-1, chosen.block).mean(axis=1)


def step_time(found: Float) -> float:
    """Give the time of a step: the median over four blocks or more, else their mean."""
    return float(step_times(found[None])[0])


def step_times(found: Float) -> Float:
    """Give the same for each row of blocks."""
    many = found.shape[1] >= _BLOCKS
    return np.median(found, axis=1) if many else found.mean(axis=1)


def settling_ns(one: Stepped, chosen: Range, step_ns: float) -> float:
    """Give what starting took beyond steady steps, up to where these are measured."""
    steps = chosen.first + 1
    begun = one.start_ns + int(one.ends[chosen.first] - one.ends[0])
    return begun - int(one.turned[: chosen.first].sum()) - steps * step_ns
