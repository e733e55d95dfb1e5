"""A window and its loader in one replay: the queue answers each request for a batch."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, hypot, log
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.model.change import Change, LoaderChange
from gapless.model.estimate import SIGMA, Estimate
from gapless.replay.edits.changes import ChangeParams
from gapless.replay.edits.copies import Rates
from gapless.replay.graph.nodes import Graph
from gapless.replay.graph.simulate import simulate
from gapless.replay.graph.tiling import tile_graph
from gapless.replay.loader.baseline import LoaderBaseline
from gapless.replay.loader.costs import LoaderInputs, make_draws, middle_draw
from gapless.replay.loader.whatif import couple_loader
from gapless.replay.predict.identity import step_lengths
from gapless.replay.predict.scene import Scene
from gapless.replay.predict.uncertainty import MODEL_SPREAD

_MAX_ANCHORS: Final = 20_000  # that a replay covers: it takes some 30 ms
_MAX_TURNS: Final = 40
_DRAWS: Final = 6


def coupled_speedup(
    scenes: Sequence[Scene],
    changes: Sequence[Change],
    rates: Rates,
    loaders: Mapping[int, LoaderInputs],
) -> Estimate:
    """Return the speed-up, and its 90 %, of changes of a loader and whatever else is changed.

    The middle is that of the loader as it was recorded; how far resampled batches, uncertain costs
    and the cost of tracing move it gives the interval.
    """
    loader_changes = [change for change in changes if isinstance(change, LoaderChange)]
    inputs = loaders[loader_changes[0].loader]
    other_changes = [change for change in changes if not isinstance(change, LoaderChange)]
    scene = max(scenes, key=lambda candidate: len(candidate.graph.counted_steps))
    weighted_graphs = [
        (extend_graph(graph), weight)
        for graph, weight in scene.weighted_graphs(other_changes, ChangeParams(rates))
    ]
    baselines = _baselines(scene, inputs)
    plain_graph = cache(lambda: extend_graph(scene.graph))

    def ratio(number: int, alpha: float) -> float:
        key = (inputs.loader.id, number, alpha)
        if key not in scene.loader_steps:
            scene.loader_steps[key] = _coupled_step_ns(plain_graph(), baselines[number], (), alpha)
        step_ns = [
            weight * _coupled_step_ns(graph, baselines[number], loader_changes, alpha)
            for graph, weight in weighted_graphs
        ]
        return scene.loader_steps[key] / sum(step_ns)

    alpha = scene.alpha
    mid = log(ratio(0, alpha.mid))
    log_ratios = [log(ratio(1 + number, alpha.mid)) for number in range(_DRAWS)]
    spread = SIGMA * float(np.std(log_ratios))
    ends = [log(ratio(0, bound)) - mid for bound in (alpha.low, alpha.high)]
    model_spread = min(MODEL_SPREAD["feed"], abs(mid) / 2)
    below, above = max(0.0, -min(ends)), max(0.0, *ends)
    return Estimate(
        exp(mid - hypot(spread, below, model_spread)),
        exp(mid),
        exp(mid + hypot(spread, above, model_spread)),
    )


def _baselines(scene: Scene, inputs: LoaderInputs) -> Sequence[LoaderBaseline]:
    """Return the loader as it was: as recorded, then resampled; the same for all what-ifs."""
    by_loader, number = scene.baselines, inputs.loader.id
    if number not in by_loader:
        loader_draws = (middle_draw(inputs), *make_draws(inputs, _DRAWS))
        by_loader[number] = tuple(LoaderBaseline(inputs, draw) for draw in loader_draws)
    return by_loader[number]


def extend_graph(graph: Graph) -> Graph:
    """Return a window that goes on for as long as loaders remember, as far as time allows.

    Host time is no longer split by leaf: the result is simulated, not changed.
    """
    threads = tuple(
        replace(thread, amounts=thread.amounts.sum(axis=1, keepdims=True))
        for thread in graph.threads
    )
    anchors = sum(len(thread.ops) for thread in threads)
    turns = max(1, min(_MAX_TURNS, _MAX_ANCHORS // max(anchors, 1)))
    return tile_graph(replace(graph, threads=threads), turns)


def _coupled_step_ns(
    graph: Graph, baseline: LoaderBaseline, changes: Sequence[LoaderChange], alpha: float
) -> float:
    """Simulate a window with a loader, and return its mean step in ns."""
    coupling = couple_loader(baseline, changes, graph.start)
    simulated = simulate(slow_host(graph, coupling.host), alpha, {-1: coupling.source})
    return float(step_lengths(graph, simulated.steps).mean())


def slow_host(graph: Graph, factor: float) -> Graph:
    """Scale the training thread's time by a factor, since processors are contended."""
    training, *other_threads = graph.threads
    amounts = np.rint(training.amounts * factor).astype(np.int64)
    own_ns = np.rint(training.own_ns * factor).astype(np.int64)
    return replace(
        graph, threads=(replace(training, amounts=amounts, own_ns=own_ns), *other_threads)
    )
