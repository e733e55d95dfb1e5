"""The arms that were run: which count, which pair up, which interval their side has."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.estimate import Estimate
from gapless.model.trial import TrialVerdict
from gapless.verify.arms import compare
from gapless.verify.arms.alternating import (
    combine_pairs,
    paired_ratios,
    settle_pairs,
    slice_means,
)
from gapless.verify.arms.compare import Float, Pair
from gapless.verify.arms.steady import (
    ArmSteps,
    SteadyRange,
    block_means,
    find_steady_range,
    use_device_times,
)
from gapless.verify.specs import OUT_OF_MEMORY, UNEDITED, ArmRun, ArmSpec, Candidate

_MAX_FAILURES: Final = 2  # of a side, at which it is refused
_SAMPLES_TOLERANCE: Final = 0.01  # samples of a step are equal within this


class ArmResult(Struct, frozen=True):
    """One arm as it was run; ``turn``: arms of one turn are neighbours and pair up."""

    spec: ArmSpec
    turn: int | None  # None: the discarded one, and those of windows
    run: ArmRun
    steps: ArmSteps | None
    why_discarded: str | None  # why it does not count
    took_s: float

    @property
    def failure(self) -> str | None:
        """Return why it could not be measured; a disturbed arm is not a failed one."""
        return self.run.failure or (None if self.steps else "it made no two steps")

    @property
    def is_counted(self) -> bool:
        """Return whether it is measured."""
        return self.turn is not None and self.why_discarded is None and self.steps is not None


class Scoreboard(Struct, frozen=True, dict=True):
    """What the arms so far show."""

    results: tuple[ArmResult, ...]

    @cached_property
    def counted_results(self) -> tuple[ArmResult, ...]:
        """Return the arms that count."""
        return tuple(result for result in self.results if result.is_counted)

    @cached_property
    def on_device(self) -> bool:
        """Return whether every arm that counts knows when its device came to the ends of steps."""
        arm_steps = [arm.steps for arm in self.counted_results]
        return bool(arm_steps) and all(
            steps is not None and steps.device_lengths is not None for steps in arm_steps
        )

    def use_timing(self, steps: ArmSteps) -> ArmSteps:
        """Return steps with the lengths that count here: all arms' on the device, or the host."""
        return use_device_times(steps) if self.on_device else steps

    @cached_property
    def steady_range(self) -> SteadyRange | None:
        """Return the steps that count in all of them."""
        arms = [
            (result.spec.side, self.use_timing(result.steps))
            for result in self.counted_results
            if result.steps is not None
        ]
        return find_steady_range(arms) if arms else None

    @cached_property
    def in_turns(self) -> bool:
        """Return whether the arms of each pair stepped in turns: they are free of drift."""
        return any(result.spec.turns is not None for result in self.counted_results)

    @property
    def measured_steps(self) -> tuple[int, int] | None:
        """Return the first and the last step that count in all arms."""
        plans = [result.spec.turns for result in self.counted_results]
        turns = next((turns for turns in plans if turns is not None), None)
        if turns is not None:
            return turns.start + turns.settling + 1, turns.stop_step
        return None if self.steady_range is None else self.steady_range.steps

    @cached_property
    def edited_sides(self) -> tuple[str, ...]:
        """Return the sides other than the unedited one that have arms that count."""
        sides = dict.fromkeys(result.spec.side for result in self.counted_results)
        return tuple(side for side in sides if side != UNEDITED)

    @cached_property
    def noise(self) -> float | None:
        """Return the A/A noise, of as many pairs as there are unedited arms.

        Of arms in turns it is the standard error of a side's pairs.
        """
        if self.in_turns:
            return compare.estimate_error(
                [settle_pairs(self.slice_ratios(side)) for side in self.edited_sides]
            )
        sides = dict.fromkeys(result.spec.side for result in self.counted_results)
        aa_ratios = [ratio for side in sides for ratio in self.log_ratios(side)]
        return compare.estimate_noise(aa_ratios, len(self.results_of(UNEDITED)))

    def log_ratios(self, side: str) -> list[float]:
        """Return how far successive arms of a side lie apart, as logarithms."""
        return compare.log_ratios(
            [self.block_means(result) for result in self.results_of(side)]
            if self.steady_range
            else []
        )

    def results_of(self, side: str) -> tuple[ArmResult, ...]:
        """Return the arms of a side that count."""
        return tuple(result for result in self.counted_results if result.spec.side == side)

    def block_means(self, result: ArmResult) -> Float:
        """Return the mean step time of each block of an arm that counts, in ns."""
        if result.steps is None or self.steady_range is None:
            return np.empty(0)
        if result.spec.turns is not None:
            means = slice_means(self.use_timing(result.steps).lengths, result.spec.turns)
            return np.empty(0) if means is None else means
        return block_means(self.use_timing(result.steps), self.steady_range)

    def pairs(self, side: str) -> tuple[Pair, ...]:
        """Return pairs of an unedited arm and its neighbour of a side, scaled to equal samples."""
        ratio = self.samples_ratio(side)
        unedited = {result.turn: result for result in self.results_of(UNEDITED)}
        return tuple(
            (self.block_means(unedited[result.turn]), self.block_means(result) / ratio)
            for result in self.results_of(side)
            if result.turn in unedited and self.steady_range is not None
        )

    def slice_ratios(self, side: str) -> list[Float]:
        """Return the speed-ups of a side's pairs that stepped in turns: of each slice, as logs."""
        pairs = self.pairs(side)
        return [paired_ratios(b, a) for a, b in pairs if len(a) and len(a) == len(b)]

    def samples_ratio(self, side: str) -> float:
        """Return how many times as many samples a step of a side holds; 1 where it is not known."""
        samples = [
            [result.steps.samples for result in self.results_of(name) if result.steps is not None]
            for name in (UNEDITED, side)
        ]
        known_samples = [[count for count in counts if count is not None] for counts in samples]
        if not all(known_samples):
            return 1.0
        ratio = float(np.median(known_samples[1]) / np.median(known_samples[0]))
        return 1.0 if abs(ratio - 1) <= _SAMPLES_TOLERANCE else ratio

    def speedup(self, side: str) -> Estimate | None:
        """Return what a side gains for each step of the unedited runs."""
        if self.in_turns:
            bounds = combine_pairs(self.slice_ratios(side))
            return None if bounds is None else Estimate(*map(math.exp, bounds))
        return compare.estimate_speedup(
            self.pairs(side), self.log_ratios(UNEDITED) + self.log_ratios(side)
        )

    def gain_out_of_reach(self, side: str, count: int) -> float | None:
        """Return the smallest gain that ``count`` pairs would show, if a side's is likely smaller.

        As a speed-up; ``None``: so many pairs may decide it, or it is too early to tell.
        """
        if self.in_turns:
            ratios, aa_ratios = settle_pairs(self.slice_ratios(side)), []
        else:
            ratios = compare.pair_ratios(self.pairs(side))
            aa_ratios = self.log_ratios(UNEDITED) + self.log_ratios(side)
        provable = compare.find_provable_gain(
            ratios, aa_ratios, max(2, count), in_turns=self.in_turns
        )
        if provable is None or provable[1] >= provable[0] or math.isinf(provable[0]):
            return None
        return math.exp(provable[0])

    def arm_s(self, side: str, planned_s: float) -> float:
        """Return how long an arm of a side takes: the mean of those so far, else as planned."""
        times_s = [arm.took_s for arm in self.results_of(side)]
        return sum(times_s) / len(times_s) if times_s else planned_s

    def verdict(self, side: str, candidate: Candidate) -> TrialVerdict:
        """Return what is proven about a side, its failures included."""
        failures = self.failures(side)
        if self.is_lost(side):
            return TrialVerdict.DOES_NOT_FIT if OUT_OF_MEMORY in failures else TrialVerdict.REFUSED
        noise = 0.0 if self.in_turns else self.noise  # no drift of the machine is left in turns
        return compare.judge_speedup(self.speedup(side), noise, candidate.predicted)

    def failures(self, side: str) -> tuple[str, ...]:
        """Return why arms of a side could not be measured, those of windows apart."""
        side_results = (
            result
            for result in self.results
            if result.spec.side == side and not result.spec.takes_window
        )
        return tuple(result.failure for result in side_results if result.failure is not None)

    def is_lost(self, side: str) -> bool:
        """Return whether a side cannot be measured."""
        failures = self.failures(side)
        return OUT_OF_MEMORY in failures or len(failures) >= _MAX_FAILURES

    def is_over(self, side: str, candidate: Candidate, pairs: int) -> bool:
        """Return whether a side needs no more arms: it failed, or so many pairs have decided it."""
        if self.is_lost(side):
            return True
        if len(self.pairs(side)) < pairs:
            return False
        if candidate.max_half_width is not None:
            return compare.is_narrow(self.speedup(side), candidate.max_half_width)
        is_decided = self.verdict(side, candidate) is not TrialVerdict.UNDECIDED
        return is_decided or compare.is_narrow(self.speedup(side))


def foreign_share(result: ArmResult) -> float | None:
    """Return the share of processors that others took: while it stepped, else over the arm.

    ``None`` for an arm that stepped in turns: the other arm of its pair would count as others.
    """
    if result.spec.turns is not None:
        return None
    while_stepping = result.steps.foreign if result.steps else None
    return result.run.foreign if while_stepping is None else while_stepping


def arm_noise(scoreboard: Scoreboard, result: ArmResult) -> float | None:
    """Return the relative half-width of the interval of an arm's own step time."""
    blocks = scoreboard.block_means(result)
    return compare.arm_noise(blocks) if len(blocks) else None


def make_scoreboard(results: Sequence[ArmResult]) -> Scoreboard:
    """Return the scoreboard of some arms."""
    return Scoreboard(tuple(results))
