"""How far a predicted ratio can be trusted: bootstrap of steps × uncertainty of a change.

Replays are made at the middle and at both ends of each uncertain value; in between, the length of
each step is interpolated linearly. Steps are drawn in blocks, since neighbours are alike (Künsch
1989). Families of changes also have a minimum spread: the error of replays of such edits on real
traces. It counts in proportion where the gain is small: no change at all is exact.
"""

from collections.abc import Mapping, Sequence
from math import exp, hypot, log, log1p
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.estimate import SIGMA, Estimate
from gapless.replay.graph.nodes import Float

BOOTSTRAP_ROUNDS: Final = 400
WIDEN_FACTOR: Final = 2.0  # times, where the replay misses the un-profiled step
_BLOCK: Final = 2  # steps
_MAX_DEVIATION: Final = 1.5  # times from the middle to an end: no drawn value lies beyond
MODEL_SPREAD: Final[Mapping[str, float]] = {  # of a step, half of 90 %
    "sync": 0.03,
    "host": 0.05,
    "copy": 0.03,
    "kernel": 0.03,
    "tail": 0.02,
    "feed": 0.06,
}
_MAX_SPREAD_SHARE: Final = 0.5  # of a small gain, that this spread is at most
_MIN_SPREAD: Final = 0.002  # of a step
_MIN_LEFT_SHARE: Final = 0.02  # of a step: no change is predicted to leave less


class EmptyStepError(Exception):
    """Nothing is left of the steps of a window once what tracing cost is taken off."""


class BoundLengths(Struct, frozen=True):
    """Lengths of the counted steps with one thing at the low and the high end of its interval."""

    low: Float
    high: Float


class StepComparison(Struct, frozen=True):
    """Lengths of the counted steps of all windows, unchanged and changed, in ns."""

    unchanged_ns: Float
    changed_ns: Float
    common_bounds: tuple[
        tuple[BoundLengths, BoundLengths], ...
    ] = ()  # what both depend on (α): unchanged, changed
    change_bounds: tuple[BoundLengths, ...] = ()  # what the change alone does

    @property
    def speedup(self) -> float:
        """Return the ratio at the middle of everything. Raises ``EmptyStepError``."""
        if not self.unchanged_ns.any():
            raise EmptyStepError
        before = self.unchanged_ns.sum()
        return float(before / max(self.changed_ns.sum(), _MIN_LEFT_SHARE * before))


def estimate_speedup(
    comparison: StepComparison, family: str, off: float = 0.0, seed: int = 0
) -> Estimate:
    """Return the speed-up and its 90 %, widened by a mismatch. Raises ``EmptyStepError``."""
    mid = comparison.speedup
    ratios = _draw_ratios(comparison, seed)
    low, high = np.quantile(ratios, (0.05, 0.95)).tolist()
    spread = _model_half(mid, family)
    below, above = max(0.0, log(mid / low)), max(0.0, log(high / mid))
    # A step that is longer by the spread: its speed-up is lower by that factor, not by its exp.
    lower_half = hypot(below, log1p(spread))
    return widen_by_mismatch(
        Estimate(mid * exp(-lower_half), mid, mid * exp(hypot(above, spread))), off
    )


def join_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Return the interval that covers those of all explanations, with their geometric middle."""
    mid = exp(sum(log(estimate.mid) for estimate in estimates) / len(estimates))
    return Estimate(
        min(estimate.low for estimate in estimates),
        mid,
        max(estimate.high for estimate in estimates),
    )


def widen_by_mismatch(estimate: Estimate, off: float) -> Estimate:
    """Return an interval for a window that misses the un-profiled step by a share ``off`` of it.

    It is twice as wide, but no half grows by more than twice the window's error: a change of which
    little is known does not become less certain by that.
    """
    below, above = log(estimate.mid / estimate.low), log(estimate.high / estimate.mid)
    below, above = (min(WIDEN_FACTOR * half, half + 2 * abs(off)) for half in (below, above))
    return Estimate(estimate.mid * exp(-below), estimate.mid, estimate.mid * exp(above))


def _model_half(speedup: float, family: str) -> float:
    """Return the minimum half of an interval, in logarithms: shares of a step are those of time."""
    gain = abs(1 - 1 / speedup)
    share = max(_MIN_SPREAD, min(MODEL_SPREAD[family], _MAX_SPREAD_SHARE * gain))
    return share * speedup


def _draw_ratios(comparison: StepComparison, seed: int) -> Float:
    draw = np.random.default_rng(seed)
    count = len(comparison.changed_ns)
    rows = _draw_blocks(draw, count)
    unchanged_ns = np.broadcast_to(comparison.unchanged_ns, (BOOTSTRAP_ROUNDS, count))
    changed_ns = np.broadcast_to(comparison.changed_ns, (BOOTSTRAP_ROUNDS, count))
    for own_bounds, changed_bounds in comparison.common_bounds:
        shares = _draw_shares(draw)
        unchanged_ns = unchanged_ns + _deviate(comparison.unchanged_ns, own_bounds, shares)
        changed_ns = changed_ns + _deviate(comparison.changed_ns, changed_bounds, shares)
    for bounds in comparison.change_bounds:
        changed_ns = changed_ns + _deviate(comparison.changed_ns, bounds, _draw_shares(draw))
    before_ns = np.take_along_axis(np.maximum(unchanged_ns, 1.0), rows, axis=1).sum(axis=1)
    after_ns = np.take_along_axis(np.maximum(changed_ns, 1.0), rows, axis=1).sum(axis=1)
    return before_ns / np.maximum(after_ns, _MIN_LEFT_SHARE * before_ns)


def _draw_blocks(
    draw: np.random.Generator, count: int
) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Draw steps, in blocks of neighbours, as many as there are."""
    block = min(_BLOCK, count)
    n_blocks = -(-count // block)
    begins = draw.integers(0, count - block + 1, (BOOTSTRAP_ROUNDS, n_blocks))
    rows = (begins[:, :, None] + np.arange(block)).reshape(BOOTSTRAP_ROUNDS, -1)
    return rows[:, :count]


def _draw_shares(draw: np.random.Generator) -> Float:
    """Draw where in its interval a value lies: −1 is the low end, 1 the high one."""
    shares = draw.standard_normal(BOOTSTRAP_ROUNDS) / SIGMA
    return np.clip(shares, -_MAX_DEVIATION, _MAX_DEVIATION)


def _deviate(mid: Float, bounds: BoundLengths, shares: Float) -> Float:
    """Return the changes of the lengths of steps, one row per round."""
    share = shares[:, None]
    return np.where(share > 0, share * (bounds.high - mid), -share * (bounds.low - mid))


def pool_windows(comparisons: Sequence[StepComparison]) -> StepComparison:
    """Return the steps of several windows as one, simulated in the same ways."""

    def concatenate(bounds: Sequence[BoundLengths]) -> BoundLengths:
        return BoundLengths(
            np.concatenate([bound.low for bound in bounds]),
            np.concatenate([bound.high for bound in bounds]),
        )

    return StepComparison(
        np.concatenate([comparison.unchanged_ns for comparison in comparisons]),
        np.concatenate([comparison.changed_ns for comparison in comparisons]),
        tuple(
            (concatenate([pair[0] for pair in pairs]), concatenate([pair[1] for pair in pairs]))
            for pairs in zip(*(comparison.common_bounds for comparison in comparisons), strict=True)
        ),
        tuple(
            concatenate(bounds)
            for bounds in zip(
                *(comparison.change_bounds for comparison in comparisons), strict=True
            )
        ),
    )
