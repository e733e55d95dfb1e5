"""A window and its loader in one replay: the queue answers each time that a batch is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import exp, hypot, log
from typing import Final

import numpy as np

from gapless.model.change import Change, Feed
from gapless.model.interval import SIGMA, Interval
from gapless.replay.asrun import AsRun
from gapless.replay.changes import How
from gapless.replay.copies import Rates
from gapless.replay.feeding import fed
from gapless.replay.identity import durations
from gapless.replay.nodes import Graph
from gapless.replay.scene import Scene
from gapless.replay.service import Inputs, draws, middle
from gapless.replay.simulate import simulate
from gapless.replay.tiling import tiled
from gapless.replay.uncertainty import MODEL

_ANCHORS: Final = 20_000  # that a replay is played for: some 30 ms
_TURNS: Final = 40
_DRAWS: Final = 6


def fed_ratios(
    scenes: Sequence[Scene],
    changes: Sequence[Change],
    rates: Rates,
    loaders: Mapping[int, Inputs],
) -> Interval:
    """Give the speed-up, and its 90 %, of changes of a loader and whatever else is changed.

    The middle is that of the loader as it was recorded; how far resampled batches and what is known
    badly of its costs move it, and the cost of tracing, give the interval.
    """
    feeds = [one for one in changes if isinstance(one, Feed)]
    inputs = loaders[feeds[0].loader]
    rest = [one for one in changes if not isinstance(one, Feed)]
    scene = max(scenes, key=lambda one: len(one.graph.counted))
    parts = [(played_on(one), weight) for one, weight in scene.parts(rest, How(rates))]
    cases = _runs(scene, inputs)
    before = cache(lambda: played_on(scene.graph))

    def ratio(number: int, alpha: float) -> float:
        key = (inputs.loader.id, number, alpha)
        if key not in scene.fed:
            scene.fed[key] = _step(before(), cases[number], (), alpha)
        after = [weight * _step(one, cases[number], feeds, alpha) for one, weight in parts]
        return scene.fed[key] / sum(after)

    alpha = scene.alpha
    mid = log(ratio(0, alpha.mid))
    drawn = [log(ratio(1 + number, alpha.mid)) for number in range(_DRAWS)]
    spread = SIGMA * float(np.std(drawn))
    ends = [log(ratio(0, one)) - mid for one in (alpha.low, alpha.high)]
    least = min(MODEL["feed"], abs(mid) / 2)
    below, above = max(0.0, -min(ends)), max(0.0, *ends)
    return Interval(
        exp(mid - hypot(spread, below, least)), exp(mid), exp(mid + hypot(spread, above, least))
    )


def _runs(scene: Scene, inputs: Inputs) -> Sequence[AsRun]:
    """Give the loader as it was: as recorded, then resampled; the same for all what-ifs."""
    known, number = scene.runs, inputs.loader.id
    if number not in known:
        every = (middle(inputs), *draws(inputs, _DRAWS))
        known[number] = tuple(AsRun(inputs, one) for one in every)
    return known[number]


def played_on(graph: Graph) -> Graph:
    """Give a window that goes on for as long as loaders remember, as far as time allows.

    Host time is no longer told apart by leaf: what comes of it is played, not changed.
    """
    threads = tuple(
        replace(one, amounts=one.amounts.sum(axis=1, keepdims=True)) for one in graph.threads
    )
    anchors = sum(len(thread.ops) for thread in threads)
    turns = max(1, min(_TURNS, _ANCHORS // max(anchors, 1)))
    return tiled(replace(graph, threads=threads), turns)


def _step(graph: Graph, run: AsRun, feeds: Sequence[Feed], alpha: float) -> float:
    """Play a window with a loader, and give its mean step in ns."""
    found = fed(run, feeds, graph.start)
    played = simulate(slower(graph, found.host), alpha, {-1: found.source})
    return float(durations(graph, played.steps).mean())


def slower(graph: Graph, factor: float) -> Graph:
    """Let the training thread take so many times as long, for processors are contended for."""
    first, *others = graph.threads
    amounts = np.rint(first.amounts * factor).astype(np.int64)
    own = np.rint(first.own * factor).astype(np.int64)
    return replace(graph, threads=(replace(first, amounts=amounts, own=own), *others))
