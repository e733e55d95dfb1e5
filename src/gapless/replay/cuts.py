"""Which calls go with a change, and which of several stay."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from gapless.accounting.intervals import Lane
from gapless.model.change import Change, Drop, Omit
from gapless.model.study import UNUSED
from gapless.model.trace import Int64
from gapless.replay.nodes import Graph, Thread
from gapless.replay.select import (
    Lanes,
    View,
    calls_named,
    frames_charged,
    lanes_of,
    spread,
    together,
)
from gapless.replay.typical import Bool

USUAL: Final = 0.5  # offset: what stays lies amid what goes
_CUTS = Drop | Omit


def going(view: View, graph: Graph, changes: Sequence[Change], offset: float = USUAL) -> Lanes:
    """Give the stretches of each thread that go with some changes, with all inside them."""
    every: list[Lanes] = []
    for one in changes:
        if isinstance(one, _CUTS):
            lanes = selected(view, one)
            gone = {
                thread.track: _chosen(thread, lanes[thread.track], one.keep, offset)
                for thread in graph.threads
                if thread.track in lanes
            }
            every.append(gone)
    return spread(graph, together(every))


def selected(view: View, change: Drop | Omit) -> dict[int, Lane]:
    """Give the stretches that a change selects, by thread, whether they stay or go."""
    if isinstance(change, Omit):
        named = lanes_of(view, calls_named(view, change.names, change.line))
        return together([named, view.unused]) if UNUSED in change.names else named
    return lanes_of(view, frames_charged(view, change.leaves))


def offsets(view: View, graph: Graph, changes: Sequence[Change]) -> tuple[tuple[float, float], ...]:
    """Give the offsets to play with, and their weights, so that the shares that stay are met.

    Of three calls a step half stay: one in one half of the steps, two in the other.
    """
    marks = {0.0, 1.0}
    for one in changes:
        if isinstance(one, _CUTS) and 0 < one.keep < 1:
            marks.add(round(1 - (one.keep * _calls_a_step(view, graph, one)) % 1, 6))
    ordered = sorted(marks)
    return tuple(((low + high) / 2, high - low) for low, high in pairwise(ordered) if high > low)


def _calls_a_step(view: View, graph: Graph, change: Drop | Omit) -> float:
    """Count the stretches with anchors that a change selects, a regular step; else all."""
    lanes, total, alone = selected(view, change), 0, 0
    counted = set(graph.counted) or set(range(1, len(graph.steps)))
    for thread in graph.threads:
        lane = lanes.get(thread.track)
        if lane is not None:
            step, has = _places(thread, lane)
            regular = np.isin(step, list(counted))
            total += int((has & regular).sum())
            alone += int((~has & regular).sum())
    return (total or alone) / max(len(counted), 1)


def _places(thread: Thread, lane: Lane) -> tuple[Int64, Bool]:
    """Give the step that each stretch lies in, and whether it has anchors."""
    first = np.searchsorted(thread.begin, lane.start)
    last = np.searchsorted(thread.begin, lane.end)
    step = np.append(thread.step, thread.step[-1:] + 1).astype(np.int64)
    return step[np.minimum(first, len(step) - 1)], last > first


def _chosen(thread: Thread, lane: Lane, keep: float, offset: float) -> Lane:
    """Give the stretches that go: in each step those that stay are spread evenly."""
    if keep <= 0 or not len(thread.ops):
        return lane
    step, has = _places(thread, lane)
    group = step * 2 + has
    order = np.argsort(group, kind="stable")
    heads = np.searchsorted(group[order], group[order])
    rank = np.empty(len(lane), np.int64)
    rank[order] = np.arange(len(lane)) - heads
    stays = np.floor((rank + 1) * keep + offset) > np.floor(rank * keep + offset)
    rows = np.flatnonzero(~stays)
    return Lane(lane.start[rows], lane.end[rows], lane.owner[rows])
