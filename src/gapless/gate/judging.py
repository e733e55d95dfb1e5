"""From arms to a verdict: the slow-down, its interval, what could have been seen, what grew."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.gate.figures import BASE, NEW, ArmFigures
from gapless.model.leaf import LEAVES, group_of
from gapless.verify.arms import compare
from gapless.verify.arms.alternating import combine_pairs, paired_ratios
from gapless.verify.arms.compare import student_quantile

MIN_SESSIONS: Final = 3  # of a baseline, from which their spread is measured
ASSUMED_DRIFT: Final = 0.015  # standard deviation between days on a machine, where not measured
_MIN_DRIFT: Final = 0.005
_OBSERVER: Final = "observer"  # what recording takes is no growth of the training
_NOISES_OF_BAR: Final = 2  # a gate that is red for nothing costs more than a trial that errs
_HALF_WIDTHS: Final = 2  # above the bar, so that an effect is proven in nearly every gate


class Effect(Struct, frozen=True):
    """How much longer a step takes: shares of the step before; negative: it is shorter."""

    low: float  # 95 % interval
    mid: float
    high: float
    bar: float  # what the interval must exceed to be proven
    visible: float  # the smallest slow-down that this measurement is sure to prove

    @property
    def is_slower(self) -> bool:
        """Return whether a regression is proven."""
        return self.low > self.bar


class LeafGrowth(Struct, frozen=True):
    """What a leaf of the account takes of a step, in ns, before and now."""

    leaf: str
    base_ns: float
    new_ns: float

    @property
    def delta_ns(self) -> float:
        """Return what it takes more."""
        return self.new_ns - self.base_ns


def judge_pairs(arms: Sequence[ArmFigures]) -> Effect | None:
    """Return the effect of interleaved arms, by pairs of neighbours; ``None`` for one pair."""
    if any(arm.alternates for arm in arms):
        return _judge_alternating(arms)
    sides = {
        side: {arm.turn: np.array(arm.blocks) for arm in arms if arm.side == side and arm.blocks}
        for side in (BASE, NEW)
    }
    turns = sorted(sides[BASE].keys() & sides[NEW].keys())
    pairs = [(sides[BASE][turn], sides[NEW][turn]) for turn in turns]
    ratios = [ratio for side in sides.values() for ratio in compare.log_ratios(list(side.values()))]
    speedup = compare.estimate_speedup(pairs, ratios)
    if speedup is None:
        return None
    noise = compare.estimate_noise(ratios, len(pairs))
    bar = compare.proof_bar(noise, noises=_NOISES_OF_BAR)
    low, mid, high = (-math.log(bound) for bound in (speedup.high, speedup.mid, speedup.low))
    return _make_effect((low, mid, high), bar)


def _judge_alternating(arms: Sequence[ArmFigures]) -> Effect | None:
    """Return the effect of pairs of arms that stepped in turns.

    Each slice was compared with its neighbour, so that there is no other noise of the machine that
    the effect must exceed.
    """
    sides = {
        side: {arm.turn: arm.blocks for arm in arms if arm.side == side and arm.alternates}
        for side in (BASE, NEW)
    }
    turns = sorted(sides[BASE].keys() & sides[NEW].keys())
    pairs = [paired_ratios(sides[BASE][turn], sides[NEW][turn]) for turn in turns]
    interval = combine_pairs(pairs)
    return None if interval is None else _make_effect(interval, math.log1p(compare.MIN_EFFECT))


def judge_against_sessions(
    sessions: Sequence[Sequence[float]], new_times: Sequence[float]
) -> Effect | None:
    """Return the effect of fresh arms against a baseline's; ``None`` where there are too few.

    ``sessions``: the step times of the arms that were recorded at each time. Arms of a session
    differ by the noise between runs; sessions also by the machine's days, whose spread is measured
    from three sessions on, and assumed before.
    """
    logs = [np.log(np.array(times, dtype=float)) for times in sessions if len(times)]
    new_logs = np.log(np.array(new_times, dtype=float))
    freedom = sum(len(values) - 1 for values in (*logs, new_logs))
    if not logs or len(new_logs) < 2 or freedom < 2:  # noqa: PLR2004 - a spread needs two
        return None
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in (*logs, new_logs))
    spread = math.sqrt(squares / freedom)
    means = np.array([values.mean() for values in logs])
    drift = ASSUMED_DRIFT
    if len(means) >= MIN_SESSIONS:
        drift = max(_MIN_DRIFT, float(means.std(ddof=1)))
        freedom = min(freedom, len(means) - 1)
    count = sum(map(len, logs))
    error = math.sqrt(
        spread**2 / len(new_logs) + spread**2 / count + drift**2 * (1 + 1 / len(means))
    )
    mid = float(np.mean(new_logs) - np.mean(means))
    half_width = student_quantile(freedom) * error
    return _make_effect((mid - half_width, mid, mid + half_width), math.log1p(compare.MIN_EFFECT))


def combine(first: Effect, second: Effect, pooled: Effect | None) -> Effect:
    """Return the effect of two sets of arms: both had to prove it, so the coarser set is the limit.

    The interval is that of all arms together, where there is one.
    """
    interval = pooled or second
    return Effect(
        interval.low,
        interval.mid,
        interval.high,
        max(first.bar, second.bar),
        max(first.visible, second.visible),
    )


def find_growths(arms: Sequence[ArmFigures]) -> tuple[LeafGrowth, ...]:
    """Return what each leaf takes more of a step, the largest growth first.

    Leaves that are noted without a window come from all arms; the rest of the step is split as in
    the arms that took a window, where both sides have such.
    """
    plain = _mean_leaves([arm for arm in arms if not arm.windowed])
    split = _mean_leaves([arm for arm in arms if arm.windowed])
    growths = _compare_leaves(plain)
    if split.keys() == plain.keys() and len(split) == len((BASE, NEW)):
        noted = {growth.leaf for growth in growths} - {"step"}
        inside = [growth for growth in _compare_leaves(split) if growth.leaf not in noted]
        growths = [growth for growth in growths if growth.leaf != "step"] + inside
    growths = [growth for growth in growths if not _is_ours(growth.leaf)]
    return tuple(sorted(growths, key=lambda growth: -growth.delta_ns))


def _is_ours(leaf: str) -> bool:
    return (leaf in LEAVES and group_of(leaf) == _OBSERVER) or leaf == _OBSERVER


def _mean_leaves(arms: Sequence[ArmFigures]) -> Mapping[str, Mapping[str, float]]:
    by_side = {side: [arm.leaves for arm in arms if arm.side == side] for side in (BASE, NEW)}
    return {
        side: {
            name: sum(leaves.get(name, 0.0) for leaves in accounts) / len(accounts)
            for name in dict.fromkeys(name for leaves in accounts for name in leaves)
        }
        for side, accounts in by_side.items()
        if accounts
    }


def _compare_leaves(means: Mapping[str, Mapping[str, float]]) -> list[LeafGrowth]:
    base, new = means.get(BASE, {}), means.get(NEW, {})
    names = dict.fromkeys((*base, *new)) if base and new else ()
    return [LeafGrowth(name, base.get(name, 0.0), new.get(name, 0.0)) for name in names]


def _make_effect(logs: tuple[float, float, float], bar: float) -> Effect:
    low, mid, high = logs
    half_width = max(mid - low, high - mid)
    return Effect(
        *(math.expm1(bound) for bound in (low, mid, high)),
        bar=math.expm1(bar) if math.isfinite(bar) else bar,
        visible=math.expm1(bar + _HALF_WIDTHS * half_width) if math.isfinite(bar) else bar,
    )
