"""Which calls a change removes, and which of several stay."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from gapless.accounting.intervals import Lane
from gapless.model.change import Change, Drop, Omit
from gapless.model.study import UNUSED
from gapless.model.trace import Int64
from gapless.replay.edits.select import (
    Lanes,
    ReplayView,
    find_calls,
    find_frames,
    join_lanes,
    lanes_of,
    spread_lanes,
)
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, GraphThread

MIDDLE_OFFSET: Final = 0.5  # offset: what stays lies in the middle of what goes
_CUTS = Drop | Omit


def find_cuts(
    view: ReplayView, graph: Graph, changes: Sequence[Change], offset: float = MIDDLE_OFFSET
) -> Lanes:
    """Return the stretches of each thread that changes remove, with everything inside them."""
    lanes_by_change: list[Lanes] = []
    for change in changes:
        if isinstance(change, _CUTS):
            lanes = select_lanes(view, change)
            cut_lanes = {
                thread.track: _choose_cuts(thread, lanes[thread.track], change.keep, offset)
                for thread in graph.threads
                if thread.track in lanes
            }
            lanes_by_change.append(cut_lanes)
    return spread_lanes(graph, join_lanes(lanes_by_change))


def select_lanes(view: ReplayView, change: Drop | Omit) -> dict[int, Lane]:
    """Return the stretches that a change selects, by thread, whether they stay or go."""
    if isinstance(change, Omit):
        named_lanes = lanes_of(view, find_calls(view, change.names, change.line))
        return (
            join_lanes([named_lanes, view.unused_lanes]) if UNUSED in change.names else named_lanes
        )
    return lanes_of(view, find_frames(view, change.leaves))


def find_offsets(
    view: ReplayView, graph: Graph, changes: Sequence[Change]
) -> tuple[tuple[float, float], ...]:
    """Return the offsets to replay with, and their weights, so that the shares that stay are met.

    If half of three calls a step stay, it is one in half of the steps and two in the other half.
    """
    marks = {0.0, 1.0}
    for change in changes:
        if isinstance(change, _CUTS) and 0 < change.keep < 1:
            marks.add(round(1 - (change.keep * _calls_per_step(view, graph, change)) % 1, 6))
    edges = sorted(marks)
    return tuple(((low + high) / 2, high - low) for low, high in pairwise(edges) if high > low)


def _calls_per_step(view: ReplayView, graph: Graph, change: Drop | Omit) -> float:
    """Count the stretches that a change selects per regular step: those with anchors, else all."""
    lanes, total, n_bare = select_lanes(view, change), 0, 0
    counted_steps = set(graph.counted_steps) or set(range(1, len(graph.steps)))
    for thread in graph.threads:
        lane = lanes.get(thread.track)
        if lane is not None:
            step, has_anchors = _locate_stretches(thread, lane)
            regular = np.isin(step, list(counted_steps))
            total += int((has_anchors & regular).sum())
            n_bare += int((~has_anchors & regular).sum())
    return (total or n_bare) / max(len(counted_steps), 1)


def _locate_stretches(thread: GraphThread, lane: Lane) -> tuple[Int64, Bool]:
    """Return the step that each stretch lies in, and whether it has anchors."""
    first_anchor = np.searchsorted(thread.begin, lane.start)
    end_anchor = np.searchsorted(thread.begin, lane.end)
    step = np.append(thread.step, thread.step[-1:] + 1).astype(np.int64)
    return step[np.minimum(first_anchor, len(step) - 1)], end_anchor > first_anchor


def _choose_cuts(thread: GraphThread, lane: Lane, keep: float, offset: float) -> Lane:
    """Return the stretches that go: in each step those that stay are spread evenly."""
    if keep <= 0 or not len(thread.ops):
        return lane
    step, has_anchors = _locate_stretches(thread, lane)
    group = step * 2 + has_anchors
    order = np.argsort(group, kind="stable")
    heads = np.searchsorted(group[order], group[order])
    rank = np.empty(len(lane), np.int64)
    rank[order] = np.arange(len(lane)) - heads
    is_kept = np.floor((rank + 1) * keep + offset) > np.floor(rank * keep + offset)
    rows = np.flatnonzero(~is_kept)
    return Lane(lane.start[rows], lane.end[rows], lane.owner[rows])
