"""Windows of all ranks, of the same steps, as one that is simulated: they meet in collectives."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.host.steps import find_steps
from gapless.accounting.intervals import empty_column
from gapless.accounting.partition import JoinedTrace
from gapless.accounting.ranks.collectives import Arrivals
from gapless.model.leaf import LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.edits.select import view_of
from gapless.replay.graph.build import ALL_STEPS
from gapless.replay.graph.joining import join_graphs, meet_ranks
from gapless.replay.graph.nodes import Graph, Refusal
from gapless.replay.graph.simulate import StuckError, simulate
from gapless.replay.predict.scene import (
    NO_CHECK,
    PlainTarget,
    RankScene,
    Scene,
    build_explained_graph,
    fit_scene,
    usual_alpha,
)

NO_DATA_NS: Final[Mapping[int, float]] = {}
_IS_DATA: Final = np.array([leaf.startswith("idle.data") for leaf in LEAVES], bool)


class RankWindow(Struct, frozen=True):
    """One rank's window, with when the last rank came to each of its collectives."""

    rank: int | None
    joined: JoinedTrace
    ledger: Ledger
    arrivals: Arrivals
    first_step: int | None = None  # as the run numbers it; None: not known


def make_joint_scene(
    windows: Sequence[RankWindow],
    target: PlainTarget,
    data_ns: Mapping[int, float] = NO_DATA_NS,
    late_rank: int | None = None,
) -> Scene | Refusal:
    """Prepare the windows of all ranks, of the same steps, for simulation together.

    ``data_ns``: by the position of a rank, what its marks show of its waits for data in a step.
    ``late_rank``: the position of the one that others wait for, as their accounts tell it; where
    these do not, as it is simulated.
    """
    graphs = list[Graph]()
    for window, kept_steps in zip(windows, _common_steps(windows), strict=True):
        graph = build_explained_graph(window.joined, window.ledger, kept_steps)
        if isinstance(graph, Refusal):
            return graph
        graphs.append(graph)
    traces = [window.joined.threads.trace for window in windows]
    ranks = meet_ranks(graphs, traces, [window.arrivals for window in windows])
    if isinstance(ranks, Refusal):
        return ranks
    views = [view_of(window.joined, window.ledger) for window in windows]
    scene = Scene(
        views[0],
        join_graphs(ranks),
        NO_CHECK,
        usual_alpha(),
        anchored=False,
        ranks=tuple(RankScene(view, rank) for view, rank in zip(views, ranks, strict=True)),
    )
    try:
        fitted = fit_scene(scene, target, lambda checked: _set_data_waits(checked, data_ns))
        return fitted if isinstance(fitted, Refusal) else _name_late_rank(fitted, late_rank)
    except StuckError as error:  # without what tracing cost, threads of a rank may meet others anew
        return Refusal(str(error))


def _common_steps(windows: Sequence[RankWindow]) -> list[slice]:
    """Return which steps of each window all ranks hold; all where they are not numbered."""
    first_steps = [window.first_step for window in windows if window.first_step is not None]
    if len(first_steps) < len(windows):
        return [ALL_STEPS] * len(windows)
    lasts = [
        first + max(0, len(_find_boundaries(window)) - 1)
        for first, window in zip(first_steps, windows, strict=True)
    ]
    return [slice(max(first_steps) - first, min(lasts) - first) for first in first_steps]


def _find_boundaries(window: RankWindow) -> Int64:
    steps = find_steps(window.joined.threads)
    return empty_column() if steps is None else steps.boundaries


def _name_late_rank(scene: Scene, known_rank: int | None) -> Scene:
    alternative = scene.alternative and _name_late_rank(scene.alternative, known_rank)
    late_rank = _find_late_rank(scene) if known_rank is None else known_rank
    return replace(scene, late_rank=late_rank, alternative=alternative)


def _find_late_rank(scene: Scene) -> int | None:
    """Return the position of the rank that waits least for others, as it is simulated.

    Ranks that make a step together are as long as one another: it works longest. Whom others wait
    for tells less: in a pipeline each waits for its neighbour, which waits itself.
    """
    meeting, starts = scene.graph.work.meeting, simulate(scene.graph, scene.alpha.mid).start
    sizes = [len(member.rank.graph.work.stream) for member in scene.ranks]
    rank = np.repeat(np.arange(len(sizes)), sizes)
    last_start = np.full(int(meeting.max()) + 1, -1)
    is_met = (meeting >= 0) & (starts >= 0)
    np.maximum.at(last_start, meeting[is_met], starts[is_met])
    waits_ns = np.bincount(rank[is_met], last_start[meeting[is_met]] - starts[is_met], len(sizes))
    return int(waits_ns.argmin()) if waits_ns.any() else None


def _set_data_waits(scene: Scene, data_ns: Mapping[int, float]) -> Scene:
    """Return a window whose ranks wait for data as long as their marks show of all steps.

    The few batches of a window are not like all others. Where a window holds no such wait, none is
    invented.
    """
    ranks = tuple(
        _scale_data(member, data_ns[rank]) if rank in data_ns else member
        for rank, member in enumerate(scene.ranks)
    )
    return replace(scene, ranks=ranks, graph=join_graphs([member.rank for member in ranks]))


def _scale_data(member: RankScene, marked_ns: float) -> RankScene:
    graph = member.rank.graph
    counted = [np.isin(thread.step, graph.counted_steps) for thread in graph.threads]
    total_ns = sum(
        int(thread.amounts[rows][:, _IS_DATA].sum())
        for thread, rows in zip(graph.threads, counted, strict=True)
    )
    if not total_ns:
        return member
    factor = np.where(_IS_DATA, marked_ns * len(graph.counted_steps) / total_ns, 1.0)
    threads = tuple(
        replace(thread, amounts=np.rint(thread.amounts * factor).astype(np.int64))
        for thread in graph.threads
    )
    return replace(member, rank=replace(member.rank, graph=replace(graph, threads=threads)))
