"""Blocks of steps of a process in which edits are switched, and what they show of each side."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.model.estimate import Estimate
from gapless.model.recording import Process, Recording
from gapless.model.trace import Int64
from gapless.recorded.training.processes import select_steppers, trainings
from gapless.verify.arms import compare
from gapless.verify.arms.block_losses import BlockLosses, read_block_losses
from gapless.verify.arms.compare import Float, Pair
from gapless.verify.arms.effects import count_effects
from gapless.verify.arms.stalls import (
    Stalls,
    add_stalls,
    are_rare,
    expect_stalls,
    include_stalls,
    split_stalls,
)
from gapless.verify.arms.steady import ArmSteps, read_steps, step_time, use_device_times
from gapless.verify.arms.switchable import FIRST_SWITCHED

_MAX_PARTS: Final = 4  # of a block, by which it is resampled
_MIN_PARTS: Final = 2
_MIN_PART_STEPS: Final = 3
_FAILURES: Final = (wire.SWITCH_FAILED, wire.SWITCH_NOT_FINITE)
_MIN_DRIFT: Final = 0.02  # smaller ones are not looked for
_DRIFT_ERRORS: Final = 3.0  # standard errors beyond which unedited blocks have drifted
_NEIGHBOURS: Final = 3  # unedited blocks before and after a side's, of which the drift is taken
_WIDE: Final = 3.0  # times the usual deviation: what lies further off counts as that
_NORMAL: Final = 1.4826  # the standard deviation of normal values over their median deviation
_MIN_DEVIATIONS: Final = 5  # deviations, from which on the usual one is known
_OUTLYING: Final = 6.0  # usual deviations, and …
_MIN_OUTLYING: Final = 0.05  # … so much, beyond which a pair was disturbed


class SwitchedBlock(Struct, frozen=True):
    """The steps of one block that count; ``side`` 0 is the unedited one."""

    side: int
    steps: int
    times_ns: Float  # means of its parts, a step, without stalls where these are rare
    stalls: Stalls  # those that were left out

    @property
    def log_time(self) -> float:
        """Return the logarithm of its step time."""
        return math.log(step_time(self.times_ns))


class SwitchedSteps(Struct, frozen=True):
    """All whole blocks of a process, in order, and why sides were left out."""

    blocks: tuple[SwitchedBlock, ...]
    active: int  # the side that was on when records end
    obstacles: dict[int, str]  # by side
    failed: frozenset[int]  # sides that could not be switched on, or whose loss was not finite
    on_device: bool
    foreign: float | None  # processors that others took, a share
    seconds: float  # from the first step to the last switch
    memory_peaks: dict[
        int, int
    ]  # by side, bytes on the device; a side that is not there: not known
    losses: BlockLosses  # of blocks, as far as they are known

    def pairs(self, side: int) -> tuple[Pair, ...]:
        """Return the blocks of a side, each after the unedited ones on both sides of it.

        Without those that something disturbed: far from the others, where most agree.
        """
        pairs = [
            (np.concatenate((before.times_ns, after.times_ns)), block.times_ns)
            for before, block, after in self._triples()
            if block.side == side and before.side == after.side == 0
        ]
        if len(pairs) < _MIN_DEVIATIONS:
            return tuple(pairs)
        ratios = np.array([math.log(step_time(a) / step_time(b)) for a, b in pairs])
        deviations = np.abs(ratios - np.median(ratios))
        limit = max(_MIN_OUTLYING, _OUTLYING * _NORMAL * float(np.median(deviations)))
        return tuple(pair for pair, off in zip(pairs, deviations, strict=True) if off <= limit)

    def aa_ratios(self) -> list[float]:
        """Return how far unedited blocks lie from the mean of their unedited neighbours.

        What is far beyond the usual counts as less: one disturbed block must not widen all
        intervals, whose middles are medians.
        """
        unedited = [block.log_time for block in self.blocks if block.side == 0]
        ratios = np.array(
            [
                (before + after) / 2 - mid
                for before, mid, after in zip(unedited, unedited[1:], unedited[2:], strict=False)
            ]
        )
        if len(ratios) >= _MIN_DEVIATIONS:
            limit = _WIDE * _NORMAL * float(np.median(np.abs(ratios)))
            ratios = np.clip(ratios, -limit, limit)
        return ratios.tolist()

    def noise(self, side: int) -> float | None:
        """Return the A/A noise of as many pairs as a side has, relative."""
        return compare.estimate_noise(self.aa_ratios(), len(self.pairs(side)))

    def speedup(self, side: int, *, collects_as_before: bool = False) -> Estimate | None:
        """Return what a side gains for each step; ``None`` for less than two pairs.

        ``collects_as_before``: its edits leave Python's garbage collector alone.
        """
        speedup = compare.estimate_speedup(self.pairs(side), self.aa_ratios())
        unedited, edited = self.stalls(0), self.stalls(side)
        if speedup is None or not unedited.count + edited.count:
            return speedup
        usual_ns = self._usual_step_ns(0)
        return include_stalls(
            speedup, usual_ns, unedited, edited, collects_as_before=collects_as_before
        )

    def stalls(self, side: int) -> Stalls:
        """Return the stalls that were left out of a side's blocks."""
        return add_stalls([block.stalls for block in self.blocks if block.side == side])

    def step_ns(self, side: int) -> int | None:
        """Return how long a side's steps take, with stalls; ``None``: it has no blocks.

        Stalls are counted as its speed-up counts them: two that chance put into one block of an
        edit do not make it slower than what it is compared with.
        """
        if not any(block.side == side for block in self.blocks):
            return None
        return round(self._usual_step_ns(side) + expect_stalls(self.stalls(0), self.stalls(side)))

    def _usual_step_ns(self, side: int) -> float:
        times_ns = [step_time(block.times_ns) for block in self.blocks if block.side == side]
        return float(np.median(times_ns))

    def drift(self, side: int) -> float | None:
        """Return how much slower (logarithm) unedited blocks stay after a side's; ``None``: not.

        On a machine that others use unedited blocks wander by themselves: that is no drift.
        """
        of_side = [index for index, block in enumerate(self.blocks) if block.side == side]
        if not of_side:
            return None
        unedited = [index for index, block in enumerate(self.blocks) if block.side == 0]
        times = np.array([self.blocks[index].log_time for index in unedited])
        numbers = range(len(unedited))
        before = [number for number in numbers if unedited[number] < of_side[0]][-_NEIGHBOURS:]
        after = [number for number in numbers if unedited[number] - 1 in of_side][:_NEIGHBOURS]
        if not before or not after:
            return None
        shift = float(times[after].mean() - times[before].mean())
        ratios = self.aa_ratios()
        spread = math.sqrt(float(np.mean(np.square(ratios))) / 1.5) if ratios else 0.0
        first = before[-1] + 1  # what the side may have left behind is no wandering
        wander = find_wander((times[:first], times[first:]))
        distance = float(np.mean(after) - np.mean(before))
        error = math.hypot(
            spread * math.sqrt(1 / len(before) + 1 / len(after)), wander * math.sqrt(distance)
        )
        return shift if abs(shift) > max(_MIN_DRIFT, _DRIFT_ERRORS * error) else None

    def _triples(self) -> Iterator[tuple[SwitchedBlock, SwitchedBlock, SwitchedBlock]]:
        return zip(self.blocks, self.blocks[1:], self.blocks[2:], strict=False)


def find_wander(parts: Sequence[Float]) -> float:
    """Return the deviation by which times (logarithms) wander from one to the next; 0: they do not.

    Times that only scatter differ from the next by √2 of their deviation, and from the mean of both
    neighbours by √1.5; those that only wander by 1 and √0.5 of a step.
    """
    steps = np.concatenate([np.diff(times) for times in parts])
    bends = np.concatenate([np.diff(times, 2) / 2 for times in parts])
    if not len(bends):
        return 0.0
    square = 3 * float(np.mean(np.square(steps))) - 4 * float(np.mean(np.square(bends)))
    return math.sqrt(max(0.0, square))


def read_blocks(recording: Recording, edit_counts: Sequence[int]) -> SwitchedSteps | None:
    """Return the blocks of a process; ``None`` where nothing was switched.

    ``edit_counts``: how many edits each side has.
    """
    stepping, arm_steps = select_steppers(trainings(recording)), read_steps(recording)
    if not stepping or arm_steps is None:
        return None
    marks = stepping[0].process.marks
    rows = np.flatnonzero(marks.kind == wire.SWITCH)
    if not len(rows):
        return None
    steps = use_device_times(arm_steps)
    edges = np.searchsorted(steps.ends, marks.start[rows])
    sides = marks.subject[rows].astype(int).tolist()
    kinds = marks.value[rows].astype(int).tolist()
    switch_indices = [index for index, kind in enumerate(kinds) if kind != wire.SWITCH_FAILED]
    obstacles = _find_obstacles(recording, sides, kinds, edit_counts)
    cut = [(int(edges[index]), sides[index], kinds[index]) for index in switch_indices]
    return SwitchedSteps(
        blocks=tuple(cut_blocks(steps, cut, _collecting_ns(stepping[0].process, steps))),
        active=cut[-1][1] if cut else 0,
        obstacles=obstacles | _find_long_periods(steps, cut, len(edit_counts)),
        failed=frozenset(
            side for side, kind in zip(sides, kinds, strict=True) if kind in _FAILURES
        ),
        on_device=arm_steps.device_lengths is not None,
        foreign=arm_steps.foreign,
        memory_peaks=dict(_read_memory_peaks(stepping[0].process)),
        losses=tuple(read_block_losses(stepping[0].process)),
        seconds=float(marks.start[rows[-1]] - arm_steps.ends[0]) * 1e-9,
    )


def _collecting_ns(process: Process, steps: ArmSteps) -> Float:
    """Return the longest garbage collection in each of the steps, as ``steps.lengths``.

    Also of the step before: a device that has work queued is late only after that.
    """
    marks = process.marks
    rows = np.flatnonzero(marks.kind == wire.COLLECTOR)
    numbers = np.searchsorted(steps.ends, marks.end[rows]) - 1
    is_within = (numbers >= 0) & (numbers < len(steps.lengths))
    longest_ns = np.zeros(len(steps.lengths))
    lengths_ns = (marks.end - marks.start)[rows][is_within]
    np.maximum.at(longest_ns, numbers[is_within], lengths_ns)
    return np.maximum(longest_ns, np.concatenate(([0.0], longest_ns))[:-1])


def cut_blocks(
    steps: ArmSteps, cut: Sequence[tuple[int, int, int]], collecting_ns: Float
) -> Iterator[SwitchedBlock]:
    """Yield the blocks between switches, without the steps in which a side settles."""
    # A part without a checkpoint, or with a part of the batches that workers give at once, tells
    # too little.
    grain = max(_MIN_PART_STEPS, steps.round_steps, *steps.periods)
    spans = [
        (side, slice(start, stop))
        for (start, side, kind), (stop, _, end_kind) in pairwise(cut)
        if kind == wire.SWITCH_SETTLED and end_kind != wire.SWITCH_NOT_FINITE
        if stop - start >= _MIN_PARTS * min(grain, _MIN_PART_STEPS)
    ]
    rows = [_leave_turns(steps, span) for _, span in spans]
    split = [split_stalls(steps.lengths[numbers], collecting_ns[numbers]) for numbers in rows]
    is_split = are_rare([stalls for _, stalls in split])
    for (side, _), numbers, (usual, stalls) in zip(spans, rows, split, strict=True):
        lengths = usual if is_split else steps.lengths[numbers]
        n_parts = max(_MIN_PARTS, min(_MAX_PARTS, len(lengths) // grain))
        parts = np.array_split(lengths, n_parts)
        left_out = stalls if is_split else Stalls(len(lengths), 0, 0.0, 0)
        yield SwitchedBlock(side, len(lengths), np.array([p.mean() for p in parts]), left_out)


def _leave_turns(steps: ArmSteps, span: slice) -> Int64:
    """Return the numbers of a block's steps without those in which an epoch turns.

    The first batch of a second loader is waited for after its turn, that of the training's own
    within it: what of it lies in a step says nothing of an edit. Where too few steps would be
    left, all are kept.
    """
    numbers: Int64 = np.arange(span.start, span.stop, dtype=np.int64)
    unturned = numbers[steps.turns_ns[span] == 0]
    return unturned if len(unturned) >= _MIN_PARTS * _MIN_PART_STEPS else numbers


def _read_memory_peaks(process: Process) -> Iterator[tuple[int, int]]:
    for fact in process.facts:
        side, peak = fact.values.get("side"), fact.values.get("memory_peak")
        if fact.noun == "block" and isinstance(side, int) and isinstance(peak, int):
            yield side, peak


def _find_obstacles(
    recording: Recording, sides: Sequence[int], kinds: Sequence[int], edit_counts: Sequence[int]
) -> dict[int, str]:
    """Return why sides cannot be measured here: refused, without effect, no finite loss."""
    counts = count_effects([recording])
    gaps = {gap.what: gap.why for process in recording.processes for gap in process.unobserved}
    obstacles: dict[int, str] = {}
    for side, n_edits in enumerate(edit_counts, 1):
        numbers = range(FIRST_SWITCHED * side, FIRST_SWITCHED * side + n_edits)
        refusals = [gaps[f"edit {number}"] for number in numbers if f"edit {number}" in gaps]
        if refusals:
            obstacles[side] = f"it could not be switched: {refusals[-1]}"
        elif numbers and not any(counts.get(number) for number in numbers):
            obstacles[side] = "it took no effect where it was switched"
    for side, kind in zip(sides, kinds, strict=True):
        if kind == wire.SWITCH_NOT_FINITE and side:
            obstacles[side] = "the loss was no finite number after it was switched on"
    return obstacles


def _find_long_periods(
    steps: ArmSteps, cut: Sequence[tuple[int, int, int]], n_sides: int
) -> dict[int, str]:
    """Return, for all sides, what recurs less often than once a block."""
    lengths = [
        stop[0] - start[0] for start, stop in pairwise(cut) if start[2] == wire.SWITCH_SETTLED
    ]
    longest = max(steps.periods, default=0)
    if not lengths or longest <= min(lengths):
        return {}
    why = f"what recurs every {longest} steps does not fit into blocks of {min(lengths)}"
    return dict.fromkeys(range(1, n_sides + 1), why)
