"""What a change of a run would give, and whether that is worth naming: in one place, for all.

What the light marks of a run tell (checkpoints, logging, evaluation, epoch turns, the collector) is
taken off the un-profiled step as it is: it lies outside of what windows show. So is what a device
leaves undone for others that compute on it: no replay explains that. All else is replayed
(``playing``). Parts are never added: what is replayed is what the rest leaves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, prod
from typing import Final, Literal

from msgspec import structs

from gapless.model.change import Change, Drop, Hosted, Predicted
from gapless.model.finding import Finding, Loss
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.replay.calibration import calibrate
from gapless.study.bounding import bound
from gapless.study.ceilings import Ceilings
from gapless.study.joint import marked
from gapless.study.loader_marks import with_marks
from gapless.study.replaying import Player

Outside = Drop | Hosted  # changes that may be of what lies outside windows
LEAST_GAIN: Final = 0.02
STEPS_TO_KNOW: Final = 50  # un-profiled ones: below, the noise is not known
OUTSIDE: Final = (  # leaves that run rows give
    "idle.io_main.checkpoint",
    "idle.io_main.logging",
    "idle.io_main.eval",
    "idle.io_main.profiling",
    "idle.gc",
    "idle.data.start-up",
)
UNDONE: Final = "idle.device.wait"
_AGAIN: Final = 2.0  # [G] at most: others may take as much within kernels, where no wait shows it
_SEEN: Final = Interval(0.85, 1.0, 1.1)  # of what was seen to go outside windows, so much does
_TOO_MUCH: Final = 0.98  # of a step: what would leave less is no prediction


@dataclass(frozen=True)
class Prices:
    """What prices are made of: the run, its replay, the ceilings that were measured."""

    seen: Seen
    player: Player
    ceilings: Ceilings

    @property
    def noise(self) -> float:
        """Give how much the usual step of the run is uncertain, as a share; 0: not known."""
        recorded = self.seen.study.recorded
        steps = recorded.steps if recorded is not None else None
        return 0.0 if steps is None or steps.noise is None else steps.noise

    @property
    def provisional(self) -> bool:
        """Tell whether the run is too short to know its noise."""
        recorded = self.seen.study.recorded
        if recorded is None:
            return (self.seen.study.account.steps or 0) < STEPS_TO_KNOW
        return recorded.steps is None or recorded.steps.regular < STEPS_TO_KNOW


def finding(prices: Prices, loss: Loss) -> Finding:
    """Price a loss."""
    predicted = price(prices, loss.changes)
    step, speedup = prices.seen.step_ns, predicted.speedup
    cost = None if step is None or speedup is None else round(step * (1 - 1 / speedup.mid))
    return Finding(loss, predicted, cost)


def worth_naming(predicted: Predicted) -> bool:
    """Tell whether the least that is gained is worth a line.

    How much steps vary is no bar: it widens what is predicted where that rests on it. Trials prove
    what is worth more than their own noise.
    """
    return predicted.speedup is not None and predicted.speedup.low - 1 >= LEAST_GAIN


def price(prices: Prices, changes: Sequence[Change]) -> Predicted:
    """Predict what some changes together give of an un-profiled step, or say why that is not."""
    if not changes:
        return refused("no replay tells what its remedies give")
    if prices.seen.step_ns is None:
        return refused("there are no steps")
    found = prices.ceilings.bound(calibrate(_predicted(prices, changes)))
    return bound(prices.seen, changes, found)


def _predicted(prices: Prices, changes: Sequence[Change]) -> Predicted:
    outside, rest = parted(prices.seen, changes)
    gone = _gone(prices.seen, outside)
    if not rest:
        return _alone(gone)
    inner = with_marks(prices.seen, rest, prices.player.play(rest))
    if inner.speedup is None or not outside:
        return inner
    return replace(inner, speedup=_joined(inner.speedup, prices.seen, gone))


def refused(why: str, family: str = "host") -> Predicted:
    """Give that nothing is predicted, and why."""
    return Predicted(None, family, refused=why)


def parted(seen: Seen, changes: Sequence[Change]) -> tuple[list[Outside], list[Change]]:
    """Part what lies outside windows from the rest; a change of both leaves becomes two."""
    if not _has_run_rows(seen):
        return [], list(changes)
    outside, rest = list[Outside](), list[Change]()
    for one in changes:
        mine = _outside(one) if isinstance(one, Drop | Hosted) else ()
        if not isinstance(one, Drop | Hosted) or not mine:
            rest.append(one)
            continue
        outside.append(structs.replace(one, leaves=mine))
        others = tuple(leaf for leaf in one.leaves if leaf not in mine)
        rest += [structs.replace(one, leaves=others)] if others else []
    return outside, rest


def _outside(change: Outside) -> tuple[str, ...]:
    """Give the prefixes of a change below which there are such leaves alone."""
    return tuple(
        leaf
        for leaf in change.leaves
        if leaf.startswith((*OUTSIDE, UNDONE)) or (leaf.rstrip(".") == "idle.io_main")
    )


def remaining(seen: Seen, changes: Sequence[Outside]) -> dict[str, float]:
    """Give the share of the step that each leaf outside of windows has, less what goes of it."""
    undone = (UNDONE,) if any(UNDONE in one.leaves for one in changes) else ()
    leaves = (*OUTSIDE, *undone) if _has_run_rows(seen) else ()
    return {leaf: seen.share(leaf) * _kept(leaf, changes, "mid") for leaf in leaves}


def _kept(leaf: str, changes: Sequence[Outside], end: Literal["low", "mid", "high"]) -> float:
    """Give the part of a leaf that stays; one that two changes name goes once."""
    return prod(
        one.keep if isinstance(one, Drop) else getattr(one.factor, end)
        for one in changes
        if leaf.startswith(one.leaves)
    )


def _gone(seen: Seen, changes: Sequence[Outside]) -> Interval:
    """Give the share of the step that goes; of several ranks that of the step they make together.

    What the runs' marks show to go outside of windows goes all but exactly.
    """
    low, mid, high = 0.0, 0.0, 0.0
    for leaf in remaining(seen, changes):
        share = seen.share(leaf)
        together = marked(seen, leaf) or Interval(share, share, share)
        spread = _spreads(seen).get(leaf, 0.0)
        most = _AGAIN if leaf == UNDONE else _SEEN.high
        below, above = hypot(1 - _SEEN.low, spread), hypot(most - 1, spread)
        low += (1 - _kept(leaf, changes, "high")) * together.low * max(0.0, 1 - below)
        mid += (1 - _kept(leaf, changes, "mid")) * together.mid * _SEEN.mid
        high += (1 - _kept(leaf, changes, "low")) * together.high * (1 + above)
    return Interval(low, mid, high)


def _spreads(seen: Seen) -> Mapping[str, float]:
    steps = None if seen.study.recorded is None else seen.study.recorded.steps
    return {} if steps is None else steps.spreads


def _has_run_rows(seen: Seen) -> bool:
    recorded = seen.study.recorded
    return recorded is not None and recorded.account is not None


def _alone(gone: Interval) -> Predicted:
    left = Interval(*(1 - min(share, _TOO_MUCH) for share in (gone.low, gone.mid, gone.high)))
    return Predicted(Interval(1 / left.low, 1 / left.mid, 1 / left.high), "tail")


def _joined(inner: Interval, seen: Seen, gone: Interval) -> Interval:
    """Join what goes outside windows with what the steps within them gain.

    The gain within is of the step without what lies outside.
    """
    beside = min(_TOO_MUCH, sum(seen.share(leaf) for leaf in OUTSIDE))
    bounds = zip((inner.low, inner.mid, inner.high), (gone.low, gone.mid, gone.high), strict=True)
    return Interval(
        *(1 / max(1 - _TOO_MUCH, (1 - beside) / gain + beside - off) for gain, off in bounds)
    )
