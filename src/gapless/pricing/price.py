"""What a change of a run would give, and whether that is worth naming: in one place, for all.

What the light marks of a run show (checkpoints, logging, evaluation, epoch turns, the collector) is
subtracted from the un-profiled step as it is: it lies outside of what windows show. So is what a
device leaves undone for others that compute on it: no replay explains that. Everything else is
replayed (``pricing.simulators``). Parts are never added: the replay gets what the rest leaves.
"""

from collections.abc import Mapping, Sequence
from math import hypot, prod
from typing import Final, Literal

from msgspec import Struct, structs
from msgspec.structs import replace

from gapless.model.change import Change, Drop, HostChange, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import Detection, Finding
from gapless.pricing.bounding import add_aftermath, bound_by_account, goes_altogether
from gapless.pricing.ceilings import Ceilings
from gapless.pricing.simulators.loader_marks import apply_marks
from gapless.pricing.simulators.multi_rank import marked_share, raise_by_samples
from gapless.pricing.simulators.protocol import Simulator
from gapless.replay.predict.calibration import calibrate

OutsideChange = Drop | HostChange  # changes that may concern what lies outside windows
LEAST_GAIN: Final = 0.02
MIN_NOISE_STEPS: Final = 50  # un-profiled steps: with fewer, the noise is not known
OUTSIDE_LEAVES: Final = (  # leaves of run rows
    "idle.io_main.checkpoint",
    "idle.io_main.logging",
    "idle.io_main.eval",
    "idle.io_main.profiling",
    "idle.gc",
    "idle.data.start-up",
)
UNDONE_LEAF: Final = "idle.device.wait"
# at most: others may take as much within kernels, where no wait shows it
_MAX_UNDONE_FACTOR: Final = 2.0
_MARKED_FACTOR: Final = Estimate(
    0.85, 1.0, 1.1
)  # this share of what was seen to go outside windows goes
_MAX_STEP_SHARE: Final = 0.98  # of a step: a prediction that leaves less is refused


class Prices(Struct, frozen=True):
    """What prices are computed from: the run, its replay, the measured ceilings."""

    evidence: Evidence
    simulator: Simulator
    ceilings: Ceilings

    @property
    def noise(self) -> float:
        """Return the relative uncertainty of the run's usual step; 0: not known."""
        steps = self.evidence.run_steps
        return 0.0 if steps is None or steps.noise is None else steps.noise

    @property
    def provisional(self) -> bool:
        """Return whether the run is too short to know its noise."""
        if self.evidence.is_trace_only:
            return (self.evidence.study.account.steps or 0) < MIN_NOISE_STEPS
        steps = self.evidence.run_steps
        return steps is None or steps.regular < MIN_NOISE_STEPS


def price_detection(prices: Prices, detection: Detection) -> Finding:
    """Price a loss."""
    prediction = price_changes(prices, detection.changes)
    prediction = raise_by_samples(prices.evidence, detection, prediction)
    if goes_altogether(detection):
        prediction = add_aftermath(
            prediction, detection.changes, on_device=prices.evidence.has_device
        )
    step, speedup = prices.evidence.step_ns, prediction.speedup
    cost = None if step is None or speedup is None else round(step * (1 - 1 / speedup.mid))
    return Finding(detection, prediction, cost)


def is_worth_naming(prediction: Prediction) -> bool:
    """Return whether the smallest gain is worth a line.

    Variation of steps is no bar: it widens the predictions that rest on it. Trials prove gains that
    exceed their own noise.
    """
    return prediction.speedup is not None and prediction.speedup.low - 1 >= LEAST_GAIN


def price_changes(prices: Prices, changes: Sequence[Change]) -> Prediction:
    """Predict the gain of changes together for an un-profiled step, or return why not."""
    if not changes:
        return refuse("no replay shows what its remedies would gain")
    if prices.evidence.step_ns is None:
        return refuse("there are no steps")
    prediction = prices.ceilings.bound(calibrate(_predict_changes(prices, changes)))
    return bound_by_account(prices.evidence, changes, prediction)


def _predict_changes(prices: Prices, changes: Sequence[Change]) -> Prediction:
    outside_changes, inner_changes = split_outside(prices.evidence, changes)
    removed_share = _removed_share(prices.evidence, outside_changes)
    if not inner_changes:
        return _price_outside(removed_share)
    inner = apply_marks(prices.evidence, inner_changes, prices.simulator.play(inner_changes))
    if inner.speedup is None or not outside_changes:
        return inner
    return replace(inner, speedup=_combine_gains(inner.speedup, prices.evidence, removed_share))


def refuse(why: str, family: str = "host") -> Prediction:
    """Return a refusal to predict, with the reason."""
    return Prediction(None, family, refused=why)


def split_outside(
    evidence: Evidence, changes: Sequence[Change]
) -> tuple[list[OutsideChange], list[Change]]:
    """Split off what lies outside windows; a change of leaves on both sides becomes two."""
    if not _has_run_rows(evidence):
        return [], list(changes)
    outside_changes, inner_changes = list[OutsideChange](), list[Change]()
    for change in changes:
        outside_leaves = _outside_leaves(change) if isinstance(change, Drop | HostChange) else ()
        if not isinstance(change, Drop | HostChange) or not outside_leaves:
            inner_changes.append(change)
            continue
        outside_changes.append(structs.replace(change, leaves=outside_leaves))
        inner_leaves = tuple(leaf for leaf in change.leaves if leaf not in outside_leaves)
        inner_changes += [structs.replace(change, leaves=inner_leaves)] if inner_leaves else []
    return outside_changes, inner_changes


def _outside_leaves(change: OutsideChange) -> tuple[str, ...]:
    """Return the prefixes of a change below which all leaves lie outside windows."""
    return tuple(
        leaf
        for leaf in change.leaves
        if leaf.startswith((*OUTSIDE_LEAVES, UNDONE_LEAF)) or (leaf.rstrip(".") == "idle.io_main")
    )


def remaining_shares(evidence: Evidence, changes: Sequence[OutsideChange]) -> dict[str, float]:
    """Return what remains of each leaf outside of windows, as a share of the step."""
    undone = (UNDONE_LEAF,) if any(UNDONE_LEAF in change.leaves for change in changes) else ()
    leaves = (*OUTSIDE_LEAVES, *undone) if _has_run_rows(evidence) else ()
    return {leaf: evidence.share(leaf) * _kept_share(leaf, changes, "mid") for leaf in leaves}


def _kept_share(
    leaf: str, changes: Sequence[OutsideChange], end: Literal["low", "mid", "high"]
) -> float:
    """Return the part of a leaf that stays; if two changes name it, it goes once."""
    return prod(
        change.keep if isinstance(change, Drop) else getattr(change.factor, end)
        for change in changes
        if leaf.startswith(change.leaves)
    )


def _removed_share(evidence: Evidence, changes: Sequence[OutsideChange]) -> Estimate:
    """Return the share of the step that goes; of several ranks that of their joint step.

    What the run's marks show outside of windows is known almost exactly.
    """
    low, mid, high = 0.0, 0.0, 0.0
    for leaf in remaining_shares(evidence, changes):
        share = evidence.share(leaf)
        joint_share = marked_share(evidence, leaf) or Estimate(share, share, share)
        spread = _spreads(evidence).get(leaf, 0.0)
        max_factor = _MAX_UNDONE_FACTOR if _is_others(leaf, changes) else _MARKED_FACTOR.high
        below, above = hypot(1 - _MARKED_FACTOR.low, spread), hypot(max_factor - 1, spread)
        low += (1 - _kept_share(leaf, changes, "high")) * joint_share.low * max(0.0, 1 - below)
        mid += (1 - _kept_share(leaf, changes, "mid")) * joint_share.mid * _MARKED_FACTOR.mid
        high += (1 - _kept_share(leaf, changes, "low")) * joint_share.high * (1 + above)
    return Estimate(low, mid, high)


def _is_others(leaf: str, changes: Sequence[OutsideChange]) -> bool:
    """Return whether a leaf is what others leave undone, and goes with them; not a part of it."""
    return leaf == UNDONE_LEAF and any(
        isinstance(change, Drop) and leaf in change.leaves for change in changes
    )


def _spreads(evidence: Evidence) -> Mapping[str, float]:
    steps = evidence.run_steps
    return {} if steps is None else steps.spreads


def _has_run_rows(evidence: Evidence) -> bool:
    return evidence.step_account is not None


def _price_outside(removed_share: Estimate) -> Prediction:
    remaining_share = Estimate(
        *(
            1 - min(share, _MAX_STEP_SHARE)
            for share in (removed_share.low, removed_share.mid, removed_share.high)
        )
    )
    return Prediction(
        Estimate(1 / remaining_share.low, 1 / remaining_share.mid, 1 / remaining_share.high), "tail"
    )


def _combine_gains(inner: Estimate, evidence: Evidence, removed_share: Estimate) -> Estimate:
    """Combine the gain outside windows with the gain of the steps within them.

    The gain within is relative to the step without what lies outside.
    """
    outside_share = min(_MAX_STEP_SHARE, sum(evidence.share(leaf) for leaf in OUTSIDE_LEAVES))
    bounds = zip(
        (inner.low, inner.mid, inner.high),
        (removed_share.low, removed_share.mid, removed_share.high),
        strict=True,
    )
    return Estimate(
        *(
            1 / max(1 - _MAX_STEP_SHARE, (1 - outside_share) / gain + outside_share - removed_part)
            for gain, removed_part in bounds
        )
    )
