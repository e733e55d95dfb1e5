"""A prediction as a trace: the events of a window at the times that a replay gives them.

It can be partitioned and drawn like any other. Activities, launches, synchronisations and waits lie
where they were simulated. Between two of those, frames keep their order and their shares of the
time: exact where an edit left a segment alone or took whole calls out of it, even where it (or what
tracing cost) took a part of the segment off: the leaves of host time are then approximate, though
every sum is that of the replay.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from gapless.accounting import partition, sum_ledgers
from gapless.accounting.intervals import NO_LANE, Lane, measure_before, piece_at
from gapless.model import category
from gapless.model.account import Account
from gapless.model.change import Change
from gapless.model.trace import Int64, Trace
from gapless.replay.edits.call_selection import find_cuts
from gapless.replay.edits.changes import ChangeParams, apply_changes
from gapless.replay.edits.copies import Rates
from gapless.replay.edits.select import Lanes, ReplayView
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, GraphThread, SimulatedSteps
from gapless.replay.graph.simulate import simulate
from gapless.replay.predict.scene import Scene

_NO_CUTS: Mapping[int, Lane] = {}


def retime_trace(
    view: ReplayView, before: Graph, after: Graph, simulated: SimulatedSteps, cuts: Lanes = _NO_CUTS
) -> Trace:
    """Return the trace that a replay of a graph stands for.

    ``before``: the graph of the trace, ``after``: the one that was simulated (not tiled), ``cuts``:
    the stretches that changes removed (``call_selection.find_cuts``), which stay as points, without
    length.
    """
    trace = view.joined_trace.threads.trace
    events = trace.events
    start, end = events.start.copy(), events.end.copy()
    main = after.threads[0].track
    index_by_track = {thread.track: index for index, thread in enumerate(after.threads)}
    is_host = ~np.isin(events.category, (*category.ACTIVITIES, category.SYNC))
    for track in np.unique(events.track[is_host]).tolist():
        index = index_by_track.get(track, 0)
        rows = np.flatnonzero(is_host & (events.track == track))
        lane = cuts.get(track, cuts.get(main, NO_LANE) if track not in index_by_track else NO_LANE)
        clock = _ReplayClock(after.threads[index], lane, simulated, index)
        start[rows], end[rows] = clock(start[rows]), clock(end[rows])
        lost_rows = rows[_is_cut(lane, events.start[rows], events.end[rows])]
        end[lost_rows] = start[lost_rows]
    _retime_activities(view, before, after, simulated, (start, end))
    health = replace(trace.health, notes=(*trace.health.notes, "played, not recorded"))
    return replace(trace, events=replace(events, start=start, end=end), health=health)


def predict_account(scene: Scene, changes: Sequence[Change], rates: Rates) -> Account:
    """Return the account of a window with some changes made, less what tracing cost."""
    return sum_ledgers([partition(predict_trace(scene, changes, rates))])


def predict_trace(scene: Scene, changes: Sequence[Change], rates: Rates) -> Trace:
    """Return the trace of a window with some changes made, less what tracing cost."""
    view, before = scene.view, scene.graph
    after = apply_changes(view, before, changes, ChangeParams(rates))
    simulated = simulate(after, scene.alpha.mid)
    return retime_trace(view, before, after, simulated, find_cuts(view, before, changes))


class _ReplayClock:
    """A map from observed times of a thread to simulated ones."""

    def __init__(
        self, thread: GraphThread, lane: Lane, simulated: SimulatedSteps, index: int
    ) -> None:
        recorded = np.stack((thread.begin, thread.end), axis=1).reshape(-1)
        replayed = np.stack(
            (simulated.segment_starts[index], simulated.threads[index]), axis=1
        ).reshape(-1)
        self.lane = lane
        self.seen = np.maximum.accumulate(recorded - measure_before(lane, recorded))
        self.told = np.maximum.accumulate(replayed)

    def __call__(self, times: Int64) -> Int64:
        """Return simulated times; outside the simulated range, as far from its ends as observed."""
        if not len(self.seen):
            return times
        own_times = times - measure_before(self.lane, times)
        inside = np.rint(np.interp(own_times, self.seen, self.told)).astype(np.int64)
        first_shift, last_shift = self.told[0] - self.seen[0], self.told[-1] - self.seen[-1]
        is_early, is_late = own_times < self.seen[0], own_times > self.seen[-1]
        return np.where(
            is_early, own_times + first_shift, np.where(is_late, own_times + last_shift, inside)
        )


def _is_cut(lane: Lane, start: Int64, end: Int64) -> Bool:
    """Return which events lie wholly in removed stretches."""
    piece = piece_at(lane, start)
    ends = np.append(lane.end, 0)[piece]
    return (piece >= 0) & (end <= ends)


def _retime_activities(
    view: ReplayView,
    before: Graph,
    after: Graph,
    simulated: SimulatedSteps,
    times: tuple[Int64, Int64],
) -> None:
    """Set the times of activities: as simulated, points if removed; later ones shifted alike."""
    start, end = times
    events = view.joined_trace.threads.trace.events
    is_activity = np.isin(events.category, category.ACTIVITIES)
    is_later = is_activity & (events.start >= view.stop)
    shift = int(simulated.steps[-1] - before.steps[-1]) if len(before.steps) else 0
    start[is_later] += shift
    end[is_later] += shift
    old_events = before.work.event
    end[old_events] = start[old_events]
    rows = after.work.event
    start[rows], end[rows] = simulated.start, simulated.end
    waits = np.flatnonzero(events.category == category.SYNC)
    end[waits] = start[waits]
