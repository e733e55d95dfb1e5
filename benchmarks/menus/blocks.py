"""Blocks of steps, and what they say of a change: speed-up, its interval, the noise beside it."""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gapless.model.interval import Interval
from gapless.verify import compare

BASE: Final = "base"  # the side without any change
NARROW: Final = 0.02
LEAST: Final = 3  # unedited blocks that tell a noise
_POWER: Final = 1.4  # 80 % of such effects are found, beside one that is half the interval


@dataclass(frozen=True)
class Side:
    """A change to measure: edits that are laid, or a variant that is trained."""

    name: str
    edits: tuple[Mapping[str, Any], ...] = ()
    variant: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "Side":
        """Give the side that a JSON object tells of."""
        return cls(found["name"], tuple(found["edits"]), found["variant"])


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
        """Give the mean time of a step: rare events are in it as often as they are."""
        return self.wall_ns / self.steps


def pairs(blocks: Sequence[Block], side: str) -> list[compare.Pair]:
    """Give each block of a side, beside what an unedited one would have taken at that moment.

    That is interpolated, in time, between the unedited blocks before and after it.
    """
    base = [block for block in blocks if block.side == BASE]
    found = (block for block in blocks if block.side == side)
    return [(_one(_between(base, block)), _one(block.step_ns)) for block in found if base]


def _one(value: float) -> compare.Float:
    return np.array([value])


def _between(base: Sequence[Block], block: Block) -> float:
    after = bisect.bisect([one.at_s for one in base], block.at_s)
    if after in (0, len(base)):
        return base[min(after, len(base) - 1)].step_ns
    left, right = base[after - 1], base[after]
    share = (block.at_s - left.at_s) / (right.at_s - left.at_s)
    return math.exp((1 - share) * math.log(left.step_ns) + share * math.log(right.step_ns))


def gain(blocks: Sequence[Block], side: str) -> Interval | None:
    """Give the speed-up of a side with its 95 % interval; ``None`` with fewer than two blocks."""
    return compare.speedup(pairs(blocks, side))


def noise(blocks: Sequence[Block]) -> float | None:
    """Give the A/A noise: what a change that does nothing would typically seem to gain."""
    base = [block for block in blocks if block.side == BASE]
    same = compare.alike([_one(block.step_ns) for block in base])
    return compare.noise(same, len(base)) if len(base) >= LEAST else None


def half(found: Interval) -> float:
    """Give half the width of an interval, relative to its middle."""
    return (found.high - found.low) / 2 / found.mid


def smallest_seen(found: Interval) -> float:
    """Give the smallest effect that would have been told from nothing four times in five."""
    return _POWER * half(found)


def narrow(blocks: Sequence[Block]) -> bool:
    """Say whether all intervals are within ±2 %."""
    sides = {block.side for block in blocks} - {BASE}
    found = [gain(blocks, side) for side in sides]
    return all(one is not None and half(one) <= NARROW for one in found)
