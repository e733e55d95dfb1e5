"""A window on which what-ifs are simulated: its graph, what tracing cost, whether to trust it."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from gapless.accounting.partition import JoinedTrace
from gapless.model.change import Change
from gapless.model.leaf import LEAVES, group_of
from gapless.model.ledger import Ledger
from gapless.replay.edits.buckets import find_buckets, regroup_gradients
from gapless.replay.edits.call_selection import find_offsets
from gapless.replay.edits.changes import ChangeParams, apply_changes
from gapless.replay.edits.evening import even_out, evened_keep, is_evening_out, saved_by_evening
from gapless.replay.edits.gradients import find_passes
from gapless.replay.edits.select import ReplayView, view_of
from gapless.replay.graph.aligning import remove_stalls
from gapless.replay.graph.build import ALL_STEPS, build_graph
from gapless.replay.graph.joining import RankGraph, join_graphs
from gapless.replay.graph.nodes import Float, Graph, Refusal
from gapless.replay.graph.simulate import simulate
from gapless.replay.loader.baseline import LoaderBaseline
from gapless.replay.predict.alpha import USUAL_ALPHA_NS, PlainSteps, ease_devices, fit_alpha
from gapless.replay.predict.hidden import hidden_ns
from gapless.replay.predict.identity import (
    EXACT_ERROR,
    EXACT_UNEXPLAINED,
    IdentityCheck,
    check_identity,
    step_lengths,
)
from gapless.replay.predict.mismatch import MAX_ALPHA, MIN_ALPHA, Alpha

MAX_UNKNOWN_SHARE: Final = 0.2  # of a step: with more of it unexplained nothing is predicted
_UNANCHORED: Final = "no un-profiled step is known: the usual cost of tracing is assumed"
_IS_UNKNOWN: Final = np.array([group_of(leaf) == "unknown" for leaf in LEAVES], bool)


NO_CHECK: Final = IdentityCheck(None, (), 0.0, passes=False, refusal="not checked")
WeightedGraphs = tuple[
    tuple[Graph, float], ...
]  # graphs, and the share of the steps that each stands for


class RankScene(Struct, frozen=True):
    """One rank of a joint window: what changes select from, and its graph."""

    view: ReplayView
    rank: RankGraph


class Scene(Struct, frozen=True):
    """A window, ready to be simulated with changes; of several ranks ``graph`` is the joint one.

    ``alternative``: the same window, by another explanation of how far it is off plain steps.
    """

    view: ReplayView
    graph: Graph
    identity: IdentityCheck
    alpha: Alpha
    anchored: bool  # α comes from the run's own steps that no profiler saw
    alternative: "Scene | None" = None
    ranks: tuple[RankScene, ...] = ()  # of a joint window, the first is that of ``view``
    late_rank: int | None = None  # position of the one that the others wait for most
    lengths_by_alpha: dict[float, Float] = field(
        default_factory=dict[float, Float]
    )  # by α: lengths, unchanged

    hidden_by_alpha: dict[float, float] = field(
        default_factory=dict[float, float]
    )  # by α: what unchanged steps hide of exchanges, in ns

    # By loader, number of the draw and α: a step with the loader as it is.
    loader_steps: dict[tuple[int, int, float], float] = field(
        default_factory=dict[tuple[int, int, float], float]
    )
    # By loader: its baseline, once for each draw.
    baselines: dict[int, tuple[LoaderBaseline, ...]] = field(
        default_factory=dict[int, tuple[LoaderBaseline, ...]]
    )

    @property
    def error_share(self) -> float:
        """Return the relative error of a step, as far as intervals must be wider for it."""
        mismatch = abs(self.alpha.error) if self.alpha.wide else 0.0
        unexplained = self.identity.unexplained
        return (
            mismatch
            + max(0.0, abs(self.identity.error or 0.0) - EXACT_ERROR)
            + (unexplained if unexplained > EXACT_UNEXPLAINED else 0.0)
        )

    def unchanged_steps(self, alpha: float) -> Float:
        """Return how long each counted step takes as it is, in ns."""
        if alpha not in self.lengths_by_alpha:
            self.lengths_by_alpha[alpha] = play_steps(self.graph, alpha)
        return self.lengths_by_alpha[alpha]

    def weighted_graphs(
        self, changes: Sequence[Change], params: ChangeParams | None = None
    ) -> WeightedGraphs:
        """Return the graphs with some changes made, and what share of the steps each stands for."""
        params = params or ChangeParams()
        first_graph = self.ranks[0].rank.graph if self.ranks else self.graph
        return tuple(
            (self._change_graph(changes, replace(params, offset=offset)), weight)
            for offset, weight in find_offsets(self.view, first_graph, changes)
        )

    def _change_graph(self, changes: Sequence[Change], params: ChangeParams) -> Graph:
        if not self.ranks:
            return apply_changes(self.view, self.graph, changes, params)
        graphs = [member.rank.graph for member in self.ranks]
        keep = evened_keep(changes)
        if keep is not None and self.late_rank is not None:
            graphs = even_out(graphs, self.late_rank, keep, params.hidden)
        own_changes = [change for change in changes if not is_evening_out(change)]
        buckets = find_buckets(changes)
        if buckets is not None:
            graphs = [
                regroup_gradients(member.view, graph, buckets)
                for member, graph in zip(self.ranks, graphs, strict=True)
            ]
        changed_graphs = [
            apply_changes(member.view, graph, own_changes, params)
            for member, graph in zip(self.ranks, graphs, strict=True)
        ]
        return join_graphs(
            [
                replace(member.rank, graph=graph)
                for member, graph in zip(self.ranks, changed_graphs, strict=True)
            ]
        )

    def changed_steps(
        self, changes: Sequence[Change], alpha: float, params: ChangeParams | None = None
    ) -> Float:
        """Return how long each counted step takes with some changes made, in ns, on average."""
        return self.play_graphs(self.weighted_graphs(changes, params), changes, alpha)

    def play_graphs(
        self, weighted_graphs: WeightedGraphs, changes: Sequence[Change], alpha: float
    ) -> Float:
        """Return how long each counted step takes in graphs with some changes made, in ns."""
        steps = average_steps(weighted_graphs, alpha)
        buckets = find_buckets(changes)
        if buckets is not None and buckets.slowdown.mid:
            hidden = sum(weight * hidden_ns(graph, alpha) for graph, weight in weighted_graphs)
            steps = steps + buckets.slowdown.mid * (hidden - self._hidden_ns(alpha))
        return self.limit_evening(steps, changes, alpha)

    def _hidden_ns(self, alpha: float) -> float:
        """Return what unchanged steps hide of exchanges: nothing of those after a pass."""
        if alpha not in self.hidden_by_alpha:
            first = self.ranks[0]
            is_by_hand = any(row.is_by_hand for row in find_passes(first.view, first.rank.graph))
            self.hidden_by_alpha[alpha] = 0.0 if is_by_hand else hidden_ns(self.graph, alpha)
        return self.hidden_by_alpha[alpha]

    def limit_evening(self, steps: Float, changes: Sequence[Change], alpha: float) -> Float:
        """Return steps in which a rank was evened out, no shorter than by what it does less.

        On average: what it does more may lie in few of them. Beside other changes: no shorter than
        with these alone, less that.
        """
        keep = evened_keep(changes)
        if keep is None or self.late_rank is None:
            return steps
        other_changes = [change for change in changes if not is_evening_out(change)]
        uneven_steps = self.unchanged_steps(alpha)
        if other_changes:
            uneven_steps = self.changed_steps(other_changes, alpha)
        graphs = [member.rank.graph for member in self.ranks]
        saved_ns = saved_by_evening(graphs, self.late_rank, keep)
        least_ns = float(uneven_steps.mean()) - saved_ns
        return steps + max(0.0, least_ns - float(steps.mean()))


def average_steps(weighted_graphs: WeightedGraphs, alpha: float) -> Float:
    """Simulate graphs and return how long each counted step takes, in ns, by their shares."""
    return np.sum([weight * play_steps(graph, alpha) for graph, weight in weighted_graphs], axis=0)


def play_steps(graph: Graph, alpha: float) -> Float:
    """Simulate a graph and return how long each counted step takes, in ns."""
    return step_lengths(graph, simulate(graph, alpha).steps).astype(np.float64)


def make_scene(
    joined_trace: JoinedTrace,
    ledger: Ledger,
    unprofiled_ns: float | None = None,
    plain_steps: PlainSteps | None = None,
    drift: float | None = None,
) -> Scene | Refusal:
    """Prepare a window for simulation, or return why nothing can be predicted from it.

    ``unprofiled_ns``: a step of the same make-up that no profiler saw (without what lies outside of
    windows: waits for workers, checkpoints); ``None``: none is known. ``plain_steps``: how short
    steps the host made; ``drift``: by what share as few steps as these are off the usual one;
    ``None``: not known.
    """
    graph = build_explained_graph(joined_trace, ledger)
    if isinstance(graph, Refusal):
        return graph
    target = PlainTarget(unprofiled_ns, plain_steps, drift)
    return fit_scene(
        Scene(view_of(joined_trace, ledger), graph, NO_CHECK, usual_alpha(), anchored=False), target
    )


class PlainTarget(Struct, frozen=True):
    """What is known of the steps that no profiler saw (``make_scene``)."""

    step_ns: float | None = None
    host_steps: PlainSteps | None = None
    drift: float | None = None


def build_explained_graph(
    joined_trace: JoinedTrace, ledger: Ledger, kept_steps: slice = ALL_STEPS
) -> Graph | Refusal:
    """Build the graph of one rank's window, or return why it explains too little."""
    graph = build_graph(joined_trace, ledger, kept_steps=kept_steps)
    reason = None if isinstance(graph, Refusal) else _refuse_unexplained(ledger)
    return graph if reason is None else Refusal(reason)


def fit_scene(
    scene: Scene, target: PlainTarget, adapt: Callable[[Scene], Scene] = lambda scene: scene
) -> Scene | Refusal:
    """Check that a window is reproduced, and find what tracing cost it.

    ``adapt`` makes its steps like plain ones in what was measured of these, once it was checked.
    """
    check = check_identity(scene.graph, simulate)
    if check.refusal is not None:
        return Refusal(check.refusal, check.error)
    # whole windows are reproduced, but gains are those of usual steps
    scene = adapt(change_ranks(replace(scene, identity=check), remove_stalls))
    alpha = usual_alpha()
    if target.step_ns is not None:
        alpha = fit_alpha(scene.graph, target.step_ns, simulate, target.host_steps, target.drift)
    if alpha.refused is not None:
        return Refusal(alpha.refused, check.error, alpha.error)
    scene = replace(scene, anchored=target.step_ns is not None)
    alternative = None if alpha.alternative is None else _explain_by(scene, alpha.alternative)
    return replace(_explain_by(scene, alpha), alternative=alternative)


def _explain_by(scene: Scene, alpha: Alpha) -> Scene:
    """Return a window by one explanation of how far it is off plain steps."""
    eased = change_ranks(
        scene, lambda graph: replace(ease_devices(graph, alpha.device), pace=alpha.pace)
    )
    return replace(eased, alpha=alpha, lengths_by_alpha={}, loader_steps={}, baselines={})


def change_ranks(scene: Scene, change: Callable[[Graph], Graph]) -> Scene:
    """Return a window with its graph changed, or the graph of each of its ranks."""
    if not scene.ranks:
        return replace(scene, graph=change(scene.graph))
    ranks = tuple(
        replace(member, rank=replace(member.rank, graph=change(member.rank.graph)))
        for member in scene.ranks
    )
    return replace(scene, ranks=ranks, graph=join_graphs([member.rank for member in ranks]))


def usual_alpha() -> Alpha:
    """Return what tracing usually costs: within these bounds it may be anything."""
    return Alpha(
        MIN_ALPHA, USUAL_ALPHA_NS, MAX_ALPHA, only_bounds=True, error=0.0, notes=(_UNANCHORED,)
    )


def _refuse_unexplained(ledger: Ledger) -> str | None:
    """Return how much of the steps is unexplained, if that is too much."""
    is_counted = np.array([not row.left_out for row in ledger.rows], bool)[ledger.row]
    length = np.where(is_counted, ledger.end - ledger.start, 0)
    total_ns = int(length.sum())
    share = float(length[_IS_UNKNOWN[ledger.leaf]].sum()) / total_ns if total_ns else 1.0
    return None if share <= MAX_UNKNOWN_SHARE else f"{share:.0%} of the steps is not explained"
