"""A window that what-ifs are played on: its graph, what tracing cost, whether to believe it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from gapless.accounting.partition import Joined
from gapless.model.change import Change
from gapless.model.leaf import LEAVES, group_of
from gapless.model.ledger import Ledger
from gapless.replay.aligning import calm
from gapless.replay.alpha import USUAL, Ahead, eased, fit_alpha
from gapless.replay.asrun import AsRun
from gapless.replay.changes import How, apply
from gapless.replay.cuts import offsets
from gapless.replay.graph import build
from gapless.replay.identity import EXACT, Identity, durations, identity
from gapless.replay.mismatch import LEAST, MOST, Alpha
from gapless.replay.nodes import Float, Graph, Refusal
from gapless.replay.select import View, view_of
from gapless.replay.simulate import simulate

UNKNOWN: Final = 0.2  # of a step: with more of it unexplained nothing is predicted
_UNANCHORED: Final = "no step without a profiler is known: what tracing cost is taken as usual"
_GROUPS: Final = np.array([group_of(leaf) == "unknown" for leaf in LEAVES], bool)


Parts = tuple[tuple[Graph, float], ...]  # graphs, and the share of the steps that each stands for


@dataclass(frozen=True)
class Scene:
    """A window, ready to be played with changes.

    ``other``: the same window, by another explanation of how far it is off plain steps.
    """

    view: View
    graph: Graph
    identity: Identity
    alpha: Alpha
    anchored: bool  # α comes from the run's own steps that no profiler saw
    other: "Scene | None" = None
    plain: dict[float, Float] = field(
        default_factory=dict[float, Float]
    )  # by α: lengths, unchanged

    # By loader, number of the draw and α: a step with the loader as it is.
    fed: dict[tuple[int, int, float], float] = field(
        default_factory=dict[tuple[int, int, float], float]
    )
    # By loader: it as it was, once for each draw.
    runs: dict[int, tuple[AsRun, ...]] = field(default_factory=dict[int, tuple[AsRun, ...]])

    @property
    def off(self) -> float:
        """Give by what share of it a step is missed, as far as intervals must be wider for that."""
        mismatch = abs(self.alpha.error) if self.alpha.wide else 0.0
        return mismatch + max(0.0, abs(self.identity.error or 0.0) - EXACT)

    def unchanged(self, alpha: float) -> Float:
        """Give how long each counted step takes as it is, in ns."""
        if alpha not in self.plain:
            self.plain[alpha] = lengths(self.graph, alpha)
        return self.plain[alpha]

    def parts(self, changes: Sequence[Change], how: How | None = None) -> Parts:
        """Give the graphs with some changes made, and what share of the steps each stands for."""
        how = how or How()
        return tuple(
            (apply(self.view, self.graph, changes, How(how.rates, offset)), weight)
            for offset, weight in offsets(self.view, self.graph, changes)
        )

    def changed(self, changes: Sequence[Change], alpha: float, how: How | None = None) -> Float:
        """Give how long each counted step takes with some changes made, in ns, on average."""
        return averaged(self.parts(changes, how), alpha)


def averaged(parts: Parts, alpha: float) -> Float:
    """Play graphs and give how long each counted step takes, in ns, by their shares."""
    return np.sum([weight * lengths(graph, alpha) for graph, weight in parts], axis=0)


def lengths(graph: Graph, alpha: float) -> Float:
    """Play a graph and give how long each counted step takes, in ns."""
    return durations(graph, simulate(graph, alpha).steps).astype(np.float64)


def scene(
    joined: Joined,
    ledger: Ledger,
    unprofiled_ns: float | None = None,
    ahead: Ahead | None = None,
    drift: float | None = None,
) -> Scene | Refusal:
    """Make a window ready to be played, or say why nothing can be predicted of it.

    ``unprofiled_ns``: a step of the same make-up that no profiler saw (without what lies outside of
    windows: waits for workers, checkpoints); ``None``: none is known. ``ahead``: how short steps
    the host made; ``drift``: by what share so few steps as these are off the usual one; ``None``:
    that is not known.
    """
    graph = build(joined, ledger)
    if isinstance(graph, Refusal):
        return graph
    reason = _unknown(ledger)
    if reason is not None:
        return Refusal(reason)
    found = identity(graph, simulate)
    if found.why_not is not None:
        return Refusal(found.why_not, found.error)
    graph = calm(graph)  # whole windows are given back, but gains are those of usual steps
    alpha = usual()
    if unprofiled_ns is not None:
        alpha = fit_alpha(graph, unprofiled_ns, simulate, ahead, drift)
    if alpha.refused is not None:
        return Refusal(alpha.refused, found.error, alpha.error)
    made = Scene(view_of(joined, ledger), graph, found, alpha, anchored=unprofiled_ns is not None)
    other = None if alpha.other is None else _explained(made, alpha.other)
    return replace(_explained(made, alpha), other=other)


def _explained(made: Scene, alpha: Alpha) -> Scene:
    """Give a window as it is by one explanation of how far it is off plain steps."""
    graph = replace(eased(made.graph, alpha.device), pace=alpha.pace)
    return Scene(made.view, graph, made.identity, alpha, anchored=made.anchored)


def usual() -> Alpha:
    """Give what tracing usually costs: within these bounds it may be anything."""
    return Alpha(LEAST, USUAL, MOST, bound=True, error=0.0, notes=(_UNANCHORED,))


def _unknown(ledger: Ledger) -> str | None:
    """Say how much of the steps nobody can explain, if that is too much."""
    counted = np.array([not row.left_out for row in ledger.rows], bool)[ledger.row]
    length = np.where(counted, ledger.end - ledger.start, 0)
    whole = int(length.sum())
    share = float(length[_GROUPS[ledger.leaf]].sum()) / whole if whole else 1.0
    return None if share <= UNKNOWN else f"{share:.0%} of the steps is not explained"
