"""What changes would give: ratios of replays, changed to unchanged, with their intervals.

A ratio is applied to the un-profiled step; replayed nanoseconds are never shown. Changes that are
requested together are simulated together, never added.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.model.change import (
    Bucket,
    Change,
    CopyChange,
    Delay,
    Drop,
    HostChange,
    LoaderChange,
    Merge,
    Omit,
    Prediction,
    Scale,
)
from gapless.model.estimate import Estimate
from gapless.replay.edits.buckets import find_buckets
from gapless.replay.edits.changes import ChangeParams
from gapless.replay.edits.copies import USUAL_RATES, Rates
from gapless.replay.edits.copy_interference import copy_interference
from gapless.replay.edits.factors import fix_factor, open_factors
from gapless.replay.edits.gradients import find_passes
from gapless.replay.graph.nodes import Float
from gapless.replay.graph.simulate import StuckError
from gapless.replay.loader.costs import LoaderInputs
from gapless.replay.predict.coupled import coupled_speedup
from gapless.replay.predict.scene import Scene
from gapless.replay.predict.uncertainty import (
    MODEL_SPREAD,
    BoundLengths,
    EmptyStepError,
    StepComparison,
    estimate_speedup,
    join_estimates,
    pool_windows,
)

_SURVIVE: Final = frozenset({"sync", "host"})  # families whose gain must be there at the high α
_EMPTY: Final = "steps are so short that tracing them may have cost all of their time"
_TAILS: Final = ("idle.io_main", "idle.gc", "idle.alloc", "idle.compile", "idle.data.start-up")
_SYNCS: Final = ("ynchronize", "aten::item", "aten::_local_scalar_dense", "nonzero", "::is_nonzero")


class PredictionInputs(Struct, frozen=True):
    """What predictions need besides windows."""

    rates: Rates = USUAL_RATES
    loaders: Mapping[int, LoaderInputs] = field(
        default_factory=dict[int, LoaderInputs]
    )  # by id, as recorded


def predict(
    scenes: Sequence[Scene], changes: Sequence[Change], inputs: PredictionInputs | None = None
) -> Prediction:
    """Predict the gain of changes together for an un-profiled step, or return why not."""
    inputs, kind = inputs or PredictionInputs(), family_of(changes)
    refusal = _find_refusal(scenes, changes, inputs)
    if refusal is not None:
        return Prediction(None, kind, refused=refusal)
    notes = tuple(dict.fromkeys(note for scene in scenes for note in scene.alpha.notes))
    explanations = [tuple(scenes)]
    if any(scene.alternative is not None for scene in scenes):
        explanations.append(tuple(scene.alternative or scene for scene in scenes))
    try:
        estimates = tuple(
            _estimate_speedup(explanation, changes, inputs, kind) for explanation in explanations
        )
    except StuckError as error:
        return Prediction(
            None, kind, refused=f"with this change, the window cannot be simulated: {error}"
        )
    except EmptyStepError:
        return Prediction(None, kind, refused=_EMPTY)
    alternatives = estimates[1:] and estimates
    return Prediction(join_estimates(estimates), kind, notes=notes, by_explanation=alternatives)


def _estimate_speedup(
    scenes: Sequence[Scene], changes: Sequence[Change], inputs: PredictionInputs, kind: str
) -> Estimate:
    """Return the speed-up by one explanation of how far windows are off plain steps."""
    if _changes_loader(changes, inputs):
        return coupled_speedup(scenes, changes, inputs.rates, inputs.loaders)
    return _replay_speedup(scenes, changes, inputs.rates, kind)


def family_of(changes: Sequence[Change]) -> str:
    """Return the family of some changes: of several, the least certain one."""
    return max(
        (_change_family(change) for change in changes),
        key=lambda name: MODEL_SPREAD[name],
        default="host",
    )


def _change_family(change: Change) -> str:
    match change:
        case Drop():
            return _leaves_family(change.leaves)
        case Omit():
            waits = all(any(word in name for word in _SYNCS) for name in change.names)
            return "sync" if waits else "host"
        case Scale():
            copies = change.leaves and all(leaf.startswith("copy") for leaf in change.leaves)
            return "copy" if copies and not change.names else "kernel"
        case CopyChange():
            return "copy"
        case LoaderChange():
            return "feed"
        case Merge() | HostChange() | Delay() | Bucket():
            return "host"


def _leaves_family(leaves: Sequence[str]) -> str:
    kinds = (
        ("tail", _TAILS),
        ("sync", ("idle.sync",)),
        ("copy", ("copy", "idle.h2d")),
        ("kernel", ("busy", "comm")),
        ("feed", ("idle.data",)),
    )
    families = {
        next((kind for kind, starts in kinds if leaf.startswith(starts)), "host") for leaf in leaves
    }
    return max(families, key=lambda name: MODEL_SPREAD[name], default="host")


def _changes_loader(changes: Sequence[Change], inputs: PredictionInputs) -> bool:
    return any(
        isinstance(change, LoaderChange) and change.loader in inputs.loaders for change in changes
    )


def _find_refusal(
    scenes: Sequence[Scene], changes: Sequence[Change], inputs: PredictionInputs
) -> str | None:
    """Return why nothing can be predicted."""
    if not scenes:
        return "there is no window to replay"
    loader_changes = [change for change in changes if isinstance(change, LoaderChange)]
    if any(change.loader not in inputs.loaders and change.wait for change in loader_changes):
        return "what the loader's batches cost was not recorded"
    if len({change.loader for change in loader_changes}) > 1:
        return "changes of several loaders are not replayed together"
    if find_buckets(changes) and not all(map(_shows_gradients, scenes)):
        return "windows do not show when gradients are ready, and what exchanges them: try it"
    return None


def _shows_gradients(scene: Scene) -> bool:
    """Return whether all ranks of a window hold a backward pass with the exchange of it."""
    ranks = scene.ranks
    return bool(ranks) and all(find_passes(rank.view, rank.rank.graph) for rank in ranks)


def _replay_speedup(
    scenes: Sequence[Scene], changes: Sequence[Change], rates: Rates, kind: str
) -> Estimate:
    comparisons = [_compare_steps(scene, changes, rates) for scene in scenes]
    estimate = estimate_speedup(
        pool_windows(comparisons), kind, max(scene.error_share for scene in scenes)
    )
    if kind not in _SURVIVE:
        return estimate
    at_high_alpha = _speedup_at_high_alpha(comparisons)
    return Estimate(min(estimate.low, at_high_alpha), estimate.mid, estimate.high)


def _speedup_at_high_alpha(comparisons: Sequence[StepComparison]) -> float:
    unchanged_ns = sum(
        float(comparison.common_bounds[0][0].high.sum()) for comparison in comparisons
    )
    changed_ns = sum(float(comparison.common_bounds[0][1].high.sum()) for comparison in comparisons)
    return (
        unchanged_ns / changed_ns if unchanged_ns and changed_ns else inf
    )  # then tracing may have cost all that stays


def _compare_steps(scene: Scene, changes: Sequence[Change], rates: Rates) -> StepComparison:
    """Simulate a window unchanged and changed, at the middle and the ends of uncertain values."""
    alpha = scene.alpha
    if any(isinstance(change, CopyChange) and change.ahead for change in changes):
        rates = replace(rates, slowdown=copy_interference(scene.view, rates.slowdown))

    def play(
        with_changes: Sequence[Change] = changes, with_rates: Rates = rates, hidden: float = 0.0
    ) -> Float:
        params = ChangeParams(with_rates, hidden=hidden)
        return scene.changed_steps(with_changes, alpha.mid, params)

    weighted_graphs = scene.weighted_graphs(changes, ChangeParams(rates))
    changed_low, middle, changed_high = (
        scene.play_graphs(weighted_graphs, changes, bound)
        for bound in (alpha.low, alpha.mid, alpha.high)
    )
    alphas = (
        BoundLengths(scene.unchanged_steps(alpha.low), scene.unchanged_steps(alpha.high)),
        BoundLengths(changed_low, changed_high),
    )
    factors = [
        BoundLengths(play(fix_factor(changes, key, -1)), play(fix_factor(changes, key, 1)))
        for key in open_factors(changes)
    ]
    copies = [
        BoundLengths(play(with_rates=low), play(with_rates=high))
        for low, high in _rate_ends(changes, rates)
    ]
    hidden = [BoundLengths(middle, play(hidden=1.0))] if scene.ranks else []
    return StepComparison(
        scene.unchanged_steps(alpha.mid), middle, (alphas,), (*factors, *copies, *hidden)
    )


def _rate_ends(changes: Sequence[Change], rates: Rates) -> list[tuple[Rates, Rates]]:
    """Return the rates at both ends of each of the intervals that some changes need."""
    pairs: list[tuple[Rates, Rates]] = []
    copies = [change for change in changes if isinstance(change, CopyChange)]
    if any(copy.pinned for copy in copies):
        low, high = _point_estimates(rates.pinned)
        pairs.append((replace(rates, pinned=low), replace(rates, pinned=high)))
        low, high = _point_estimates(rates.unmap_ns)
        pairs.append((replace(rates, unmap_ns=low), replace(rates, unmap_ns=high)))
    if any(copy.ahead for copy in copies):
        low, high = _point_estimates(rates.slowdown)
        pairs.append((replace(rates, slowdown=low), replace(rates, slowdown=high)))
    return pairs


def _point_estimates(estimate: Estimate) -> tuple[Estimate, Estimate]:
    low, high = estimate.low, estimate.high
    return Estimate(low, low, low), Estimate(high, high, high)
