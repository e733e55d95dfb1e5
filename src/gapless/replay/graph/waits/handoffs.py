"""Hand-offs between threads: the forward thread waits while an autograd thread works.

Another thread's *burst* is a stretch of its frames between which the training thread began and
ended nothing (``accounting.host.host``). The thread that was at work before a burst hands over to
it, and goes on when it ends, if it did nothing meanwhile; a thread that worked on is not waited
for.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from gapless.accounting.host.host import main_edges
from gapless.accounting.host.threads import Threads
from gapless.accounting.intervals import union
from gapless.model import category
from gapless.model.trace import Int64
from gapless.replay.graph.anchors import Anchors, make_anchors
from gapless.replay.graph.nodes import Op
from gapless.replay.graph.span import GraphSpan

_API = (category.CPU_OP, category.RUNTIME, category.DRIVER)


class Burst(Struct, frozen=True):
    """A stretch of a thread's work; ``giver``: who hands over to it; ``taker``: who waits, −1."""

    track: int
    begin: int
    end: int
    giver: int
    taker: int


def find_bursts(span: GraphSpan, tracks: set[int]) -> list[Burst]:
    """Return the bursts of some threads in order of time, and who handed over to them."""
    threads, main = span.joined_trace.threads, span.joined_trace.threads.main
    edges = {track: _call_edges(threads, track) for track in tracks}
    edges[main] = main_edges(threads)
    stretches = sorted(
        (lo, hi, track)
        for track in tracks
        if track != main
        for lo, hi in _find_stretches(span, track)
    )
    bursts, open_ = list[Burst](), list[tuple[int, int, int]]()
    for lo, hi, track in stretches:
        open_ = [stretch for stretch in open_ if stretch[1] > lo]
        enclosing = [stretch[2] for stretch in open_ if stretch[1] > hi and stretch[2] != track]
        givers = [*reversed(enclosing), main]
        idle_tracks = [track for track in givers if _is_idle(edges[track], lo, hi)]
        giver = idle_tracks[0] if idle_tracks else main
        bursts.append(Burst(track, lo, hi, giver, giver if idle_tracks else -1))
        open_.append((lo, hi, track))
    return bursts


def hand_off_anchors(span: GraphSpan, bursts: list[Burst], thread_anchors: Anchors) -> Anchors:
    """Return the anchors of hand-offs: two for each burst, and two for its end.

    The waiting thread does so from its last own anchor inside the burst: it evaluates nodes of CPU
    tensors meanwhile.
    """
    last_ends = dict.fromkeys({burst.track for burst in bursts}, span.start)
    ends_by_track = {
        track: thread_anchors.end[thread_anchors.track == track]
        for track in {burst.taker for burst in bursts}
    }
    ends_by_track = {track: np.sort(ends) for track, ends in ends_by_track.items()}
    rows = list[tuple[int, ...]]()
    number = 0
    for burst, cluster_start in zip(bursts, _cluster_starts(bursts), strict=True):
        if burst.begin > span.start:
            rows.append((burst.giver, Op.EMIT, number, -1, burst.begin, burst.begin, 0))
            rows.append((burst.track, Op.WAIT, number, -1, last_ends[burst.track], burst.begin, 0))
            number += 1
        last_ends[burst.track] = burst.end
        if burst.taker < 0 or burst.end >= span.stop:
            continue
        ends = ends_by_track[burst.taker]
        position = int(np.searchsorted(ends, burst.end, side="right")) - 1
        begin = max(cluster_start, int(ends[position]) if position >= 0 else cluster_start)
        rows.append((burst.track, Op.EMIT, number, -1, burst.end, burst.end, 0))
        rows.append((burst.taker, Op.WAIT, number, -1, min(begin, burst.end), burst.end, 0))
        number += 1
    return make_anchors(rows)


def _cluster_starts(bursts: list[Burst]) -> Iterator[int]:
    """Return for each burst when the last one began that overlaps it and has the same giver."""
    first_by_giver, reach = dict[int, int](), dict[int, int]()
    clusters = list[tuple[int, int]]()
    for number, burst in enumerate(bursts):
        giver = burst.giver
        if burst.begin >= reach.get(giver, burst.begin):
            first_by_giver[giver] = number
        reach[giver] = max(reach.get(giver, burst.end), burst.end)
        clusters.append((giver, first_by_giver[giver]))
    latest = dict(zip(clusters, (burst.begin for burst in bursts), strict=True))
    return (latest[cluster] for cluster in clusters)


def _find_stretches(span: GraphSpan, track: int) -> list[tuple[int, int]]:
    """Return the bursts of a thread within the span."""
    lane = span.host.lanes[track].lane if track in span.host.lanes else None
    if lane is None or not len(lane):
        return []
    merged = union(lane.start, lane.end)
    is_near = (merged.end > span.start) & (merged.start < span.stop)
    begin = np.maximum(merged.start[is_near], span.start).tolist()
    return list(zip(begin, np.minimum(merged.end[is_near], span.stop).tolist(), strict=True))


def _call_edges(threads: Threads, track: int) -> Int64:
    events, frames = threads.trace.events, threads.frames_of(track)
    calls = frames[np.isin(events.category[frames], _API)]
    return np.sort(np.concatenate((events.start[calls], events.end[calls])))


def _is_idle(edges: Int64, lo: int, hi: int) -> bool:
    """Return whether a thread began and ended nothing strictly inside ``(lo, hi)``."""
    return bool(np.searchsorted(edges, lo, side="right") == np.searchsorted(edges, hi))
