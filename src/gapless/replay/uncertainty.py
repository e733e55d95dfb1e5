"""How far a predicted ratio can be trusted: bootstrap of steps × what is not known of a change.

Replays are made at the middle and at both ends of each thing that is not known; between, the length
of each step is taken to be straight. Steps are drawn in blocks, for neighbours are alike (Künsch
1989). Families of changes have a least spread beside: what replays of edits of that kind were off
by on real traces. It counts in proportion where the gain is small: no change at all is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log, log1p
from typing import Final

import numpy as np

from gapless.model.interval import SIGMA, Interval
from gapless.replay.nodes import Float

ROUNDS: Final = 400
WIDE: Final = 2.0  # times, where the replay misses the un-profiled step
_BLOCK: Final = 2  # steps
_FARTHEST: Final = 1.5  # times from the middle to an end: no drawn value lies beyond
MODEL: Final[Mapping[str, float]] = {  # of a step, half of 90 %
    "sync": 0.03,
    "host": 0.05,
    "copy": 0.03,
    "kernel": 0.03,
    "tail": 0.02,
    "feed": 0.06,
}
_PART: Final = 0.5  # of a small gain, that this spread is at most
_FLOOR: Final = 0.002  # of a step
_LEFT: Final = 0.02  # of a step: no change is foretold to leave less


class EmptyStepError(Exception):
    """Nothing is left of the steps of a window once what tracing cost is taken off."""


@dataclass(frozen=True)
class Ends:
    """Lengths of the counted steps with one thing at the low and the high end of its interval."""

    low: Float
    high: Float


@dataclass(frozen=True)
class Played:
    """Lengths of the counted steps of all windows, unchanged and changed, in ns."""

    unchanged: Float
    changed: Float
    both: tuple[tuple[Ends, Ends], ...] = ()  # what both depend on (α): unchanged, changed
    only: tuple[Ends, ...] = ()  # what the change alone does

    @property
    def speedup(self) -> float:
        """Give the ratio at the middle of everything. Raises ``EmptyStepError``."""
        if not self.unchanged.any():
            raise EmptyStepError
        before = self.unchanged.sum()
        return float(before / max(self.changed.sum(), _LEFT * before))


def interval(played: Played, family: str, off: float = 0.0, seed: int = 0) -> Interval:
    """Give the speed-up and its 90 %; ``off``: as ``wider`` has it. Raises ``EmptyStepError``."""
    mid = played.speedup
    ratios = _ratios(played, seed)
    low, high = np.quantile(ratios, (0.05, 0.95)).tolist()
    spread = _model(mid, family)
    below, above = max(0.0, log(mid / low)), max(0.0, log(high / mid))
    # A step that is longer by the spread: its speed-up is as many times less, not exp of it.
    least = hypot(below, log1p(spread))
    return wider(Interval(mid * exp(-least), mid, mid * exp(hypot(above, spread))), off)


def joined(every: Sequence[Interval]) -> Interval:
    """Give the interval that holds those of all explanations; its middle is theirs (geometric)."""
    mid = exp(sum(log(one.mid) for one in every) / len(every))
    return Interval(min(one.low for one in every), mid, max(one.high for one in every))


def wider(found: Interval, off: float) -> Interval:
    """Give an interval for a window that misses the un-profiled step by a share ``off`` of it.

    It is twice as wide, but no half grows by more than twice what the window is off: a change of
    which little is known is not known less by that.
    """
    below, above = log(found.mid / found.low), log(found.high / found.mid)
    below, above = (min(WIDE * half, half + 2 * abs(off)) for half in (below, above))
    return Interval(found.mid * exp(-below), found.mid, found.mid * exp(above))


def _model(speedup: float, family: str) -> float:
    """Give the least half of an interval, in logarithms: shares of a step are those of time."""
    gain = abs(1 - 1 / speedup)
    share = max(_FLOOR, min(MODEL[family], _PART * gain))
    return share * speedup


def _ratios(played: Played, seed: int) -> Float:
    draw = np.random.default_rng(seed)
    count = len(played.changed)
    rows = _blocks(draw, count)
    unchanged = np.broadcast_to(played.unchanged, (ROUNDS, count))
    changed = np.broadcast_to(played.changed, (ROUNDS, count))
    for mine, theirs in played.both:
        at = _drawn(draw)
        unchanged = unchanged + _off(played.unchanged, mine, at)
        changed = changed + _off(played.changed, theirs, at)
    for ends in played.only:
        changed = changed + _off(played.changed, ends, _drawn(draw))
    before = np.take_along_axis(np.maximum(unchanged, 1.0), rows, axis=1).sum(axis=1)
    after = np.take_along_axis(np.maximum(changed, 1.0), rows, axis=1).sum(axis=1)
    return before / np.maximum(after, _LEFT * before)


def _blocks(
    draw: np.random.Generator, count: int
) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Draw steps, in blocks of neighbours, as many as there are."""
    block = min(_BLOCK, count)
    many = -(-count // block)
    begins = draw.integers(0, count - block + 1, (ROUNDS, many))
    rows = (begins[:, :, None] + np.arange(block)).reshape(ROUNDS, -1)
    return rows[:, :count]


def _drawn(draw: np.random.Generator) -> Float:
    """Draw where in its interval a value lies: −1 is the low end, 1 the high one."""
    at = draw.standard_normal(ROUNDS) / SIGMA
    return np.clip(at, -_FARTHEST, _FARTHEST)


def _off(mid: Float, ends: Ends, at: Float) -> Float:
    """Give what the lengths of steps change by, a round a row."""
    share = at[:, None]
    return np.where(share > 0, share * (ends.high - mid), -share * (ends.low - mid))


def pooled(parts: Sequence[Played]) -> Played:
    """Give the steps of several windows as one, that were played in the same ways."""

    def in_a_row(every: Sequence[Ends]) -> Ends:
        return Ends(
            np.concatenate([one.low for one in every]), np.concatenate([one.high for one in every])
        )

    return Played(
        np.concatenate([one.unchanged for one in parts]),
        np.concatenate([one.changed for one in parts]),
        tuple(
            (in_a_row([each[0] for each in same]), in_a_row([each[1] for each in same]))
            for same in zip(*(one.both for one in parts), strict=True)
        ),
        tuple(in_a_row(same) for same in zip(*(one.only for one in parts), strict=True)),
    )
