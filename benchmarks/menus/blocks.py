"""Blocks of steps, and what they say of a change: speed-up, its interval, the noise beside it."""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gapless.model.estimate import Estimate
from gapless.verify.arms import compare

BASE: Final = "base"  # the side without any change
MAX_HALF_WIDTH: Final = 0.02
MIN_BASE_BLOCKS: Final = 3  # unedited blocks that tell a noise
_POWER: Final = 1.4  # 80 % of such effects are found, beside one that is half the interval


@dataclass(frozen=True)
class MenuSide:
    """A change to measure: edits that are laid, or a variant that is trained."""

    name: str
    edits: tuple[Mapping[str, Any], ...] = ()
    variant: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "MenuSide":
        """Return the side that a JSON object tells of."""
        return cls(document["name"], tuple(document["edits"]), document["variant"])


@dataclass(frozen=True)
class Block:
    """Steps of one side in a row."""

    side: str
    at_s: float  # when it ended
    steps: int
    wall_ns: int
    foreign: float | None  # cores that other processes took meanwhile
    device: Mapping[str, float]  # clock, temperature, power at its start

    @property
    def step_ns(self) -> float:
        """Return the mean time of a step: rare events are in it as often as they are."""
        return self.wall_ns / self.steps


def block_pairs(blocks: Sequence[Block], side: str) -> list[compare.Pair]:
    """Return each block of a side, beside what an unedited one would have taken at that moment.

    That is interpolated, in time, between the unedited blocks before and after it.
    """
    base = [block for block in blocks if block.side == BASE]
    edited = (block for block in blocks if block.side == side)
    return [
        (_as_sample(_interpolate_base(base, block)), _as_sample(block.step_ns))
        for block in edited
        if base
    ]


def _as_sample(value: float) -> compare.Float:
    return np.array([value])


def _interpolate_base(base: Sequence[Block], block: Block) -> float:
    after = bisect.bisect([earlier.at_s for earlier in base], block.at_s)
    if after in (0, len(base)):
        return base[min(after, len(base) - 1)].step_ns
    before, behind = base[after - 1], base[after]
    share = (block.at_s - before.at_s) / (behind.at_s - before.at_s)
    return math.exp((1 - share) * math.log(before.step_ns) + share * math.log(behind.step_ns))


def gain(blocks: Sequence[Block], side: str) -> Estimate | None:
    """Return the speed-up of a side with its 95 % interval; ``None`` with fewer than two blocks."""
    return compare.estimate_speedup(block_pairs(blocks, side))


def noise(blocks: Sequence[Block]) -> float | None:
    """Return the A/A noise: what a change that does nothing would typically seem to gain."""
    base = [block for block in blocks if block.side == BASE]
    base_pairs = compare.log_ratios([_as_sample(block.step_ns) for block in base])
    return compare.estimate_noise(base_pairs, len(base)) if len(base) >= MIN_BASE_BLOCKS else None


def half_width(estimate: Estimate) -> float:
    """Return half the width of an interval, relative to its middle."""
    return (estimate.high - estimate.low) / 2 / estimate.mid


def smallest_seen(estimate: Estimate) -> float:
    """Return the smallest effect that would have been told from nothing four times in five."""
    return _POWER * half_width(estimate)


def is_narrow(blocks: Sequence[Block]) -> bool:
    """Return whether all intervals are within ±2 %."""
    sides = {block.side for block in blocks} - {BASE}
    estimates = [gain(blocks, side) for side in sides]
    return all(
        estimate is not None and half_width(estimate) <= MAX_HALF_WIDTH for estimate in estimates
    )
