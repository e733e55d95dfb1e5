"""A prediction as a trace: the events of a window at the times that a replay gives them.

It can be partitioned and drawn like any other. Activities, launches, synchronisations and waits lie
where they were played. Between two of those, frames keep their order and their shares of the time:
exact where an edit left a segment alone or took whole calls out of it, even where it (or what
tracing cost) took a part of the segment off: the leaves of host time are then approximate, though
every sum is that of the replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gapless.accounting import account, partition
from gapless.accounting.intervals import NO_LANE, Lane, covered, piece_at
from gapless.model import category
from gapless.model.account import Account
from gapless.model.change import Change
from gapless.model.trace import Int64, Trace
from gapless.replay.changes import How, apply
from gapless.replay.copies import Rates
from gapless.replay.cuts import going
from gapless.replay.nodes import Graph, Played, Thread
from gapless.replay.scene import Scene
from gapless.replay.select import Lanes, View
from gapless.replay.simulate import simulate
from gapless.replay.typical import Bool

_NONE: Mapping[int, Lane] = {}


def retimed(view: View, before: Graph, after: Graph, played: Played, gone: Lanes = _NONE) -> Trace:
    """Give the trace that a replay of a graph stands for.

    ``before``: the graph of the trace, ``after``: the one that was played (not tiled), ``gone``:
    the stretches that changes took out (``cuts.going``), which stay as points, without length.
    """
    trace = view.joined.threads.trace
    events = trace.events
    start, end = events.start.copy(), events.end.copy()
    main = after.threads[0].track
    known = {thread.track: at for at, thread in enumerate(after.threads)}
    host = ~np.isin(events.category, (*category.ACTIVITIES, category.SYNC))
    for track in np.unique(events.track[host]).tolist():
        at = known.get(track, 0)
        rows = np.flatnonzero(host & (events.track == track))
        lane = gone.get(track, gone.get(main, NO_LANE) if track not in known else NO_LANE)
        moved = _Clock(after.threads[at], lane, played, at)
        start[rows], end[rows] = moved(start[rows]), moved(end[rows])
        lost = rows[_lost(lane, events.start[rows], events.end[rows])]
        end[lost] = start[lost]
    _activities(view, before, after, played, (start, end))
    health = replace(trace.health, notes=(*trace.health.notes, "played, not recorded"))
    return replace(trace, events=replace(events, start=start, end=end), health=health)


def told(scene: Scene, changes: Sequence[Change], rates: Rates) -> Account:
    """Give the account of a window with some changes made, less what tracing cost."""
    view, before = scene.view, scene.graph
    after = apply(view, before, changes, How(rates))
    played = simulate(after, scene.alpha.mid)
    return account([partition(retimed(view, before, after, played, going(view, before, changes)))])


class _Clock:
    """Times of a thread as seen, told as they were played."""

    def __init__(self, thread: Thread, lane: Lane, played: Played, at: int) -> None:
        seen = np.stack((thread.begin, thread.end), axis=1).reshape(-1)
        told = np.stack((played.begun[at], played.threads[at]), axis=1).reshape(-1)
        self.lane = lane
        self.seen = np.maximum.accumulate(seen - covered(lane, seen))
        self.told = np.maximum.accumulate(told)

    def __call__(self, times: Int64) -> Int64:
        """Give when it was played; outside of what was, as far from its ends as seen."""
        if not len(self.seen):
            return times
        own = times - covered(self.lane, times)
        inside = np.rint(np.interp(own, self.seen, self.told)).astype(np.int64)
        first, last = self.told[0] - self.seen[0], self.told[-1] - self.seen[-1]
        early, late = own < self.seen[0], own > self.seen[-1]
        return np.where(early, own + first, np.where(late, own + last, inside))


def _lost(lane: Lane, start: Int64, end: Int64) -> Bool:
    """Tell which events lie whole in what is gone."""
    piece = piece_at(lane, start)
    ends = np.append(lane.end, 0)[piece]
    return (piece >= 0) & (end <= ends)


def _activities(
    view: View, before: Graph, after: Graph, played: Played, times: tuple[Int64, Int64]
) -> None:
    """Set the times of activities: as played, points if gone; what came later, as much later."""
    start, end = times
    events = view.joined.threads.trace.events
    activities = np.isin(events.category, category.ACTIVITIES)
    later = activities & (events.start >= view.stop)
    shift = int(played.steps[-1] - before.steps[-1]) if len(before.steps) else 0
    start[later] += shift
    end[later] += shift
    old = before.work.event
    end[old] = start[old]
    rows = after.work.event
    start[rows], end[rows] = played.start, played.end
    waits = np.flatnonzero(events.category == category.SYNC)
    end[waits] = start[waits]
