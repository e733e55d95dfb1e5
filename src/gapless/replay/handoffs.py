"""Hand-offs between threads: the forward thread waits while an autograd thread works.

Another thread's *burst* is a stretch of its frames between which the training thread began and
ended nothing (``accounting.host``). The thread that was at work before a burst hands over to it,
and goes on when it ends, if it did nothing meanwhile; a thread that worked on is not waited for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gapless.accounting.host import own_edges
from gapless.accounting.intervals import union
from gapless.accounting.threads import Threads
from gapless.model import category
from gapless.model.trace import Int64
from gapless.replay.anchors import Anchors, anchors
from gapless.replay.nodes import Op
from gapless.replay.span import Span

_API = (category.CPU_OP, category.RUNTIME, category.DRIVER)


@dataclass(frozen=True)
class Burst:
    """A stretch of a thread's work; ``giver``: who hands over to it; ``taker``: who waits, −1."""

    track: int
    begin: int
    end: int
    giver: int
    taker: int


def bursts(span: Span, tracks: set[int]) -> list[Burst]:
    """Give the bursts of some threads in order of time, and who handed over to them."""
    threads, main = span.joined.threads, span.joined.threads.main
    edges = {track: _edges(threads, track) for track in tracks}
    edges[main] = own_edges(threads)
    found = sorted(
        (lo, hi, track) for track in tracks if track != main for lo, hi in _stretches(span, track)
    )
    out, open_ = list[Burst](), list[tuple[int, int, int]]()
    for lo, hi, track in found:
        open_ = [one for one in open_ if one[1] > lo]
        around = [one[2] for one in open_ if one[1] > hi and one[2] != track]
        givers = [*reversed(around), main]
        idle = [one for one in givers if _is_idle(edges[one], lo, hi)]
        giver = idle[0] if idle else main
        out.append(Burst(track, lo, hi, giver, giver if idle else -1))
        open_.append((lo, hi, track))
    return out


def handed(span: Span, every: list[Burst], others: Anchors) -> Anchors:
    """Give the anchors of hand-offs: two for each burst, and two for its end.

    Who waits does so from its last own anchor inside the burst: of the nodes of CPU tensors that
    it evaluates meanwhile.
    """
    last = dict.fromkeys({one.track for one in every}, span.start)
    busy = {track: others.end[others.track == track] for track in {one.taker for one in every}}
    busy = {track: np.sort(ends) for track, ends in busy.items()}
    rows = list[tuple[int, ...]]()
    number = 0
    for burst, since in zip(every, _clusters(every), strict=True):
        if burst.begin > span.start:
            rows.append((burst.giver, Op.EMIT, number, -1, burst.begin, burst.begin, 0))
            rows.append((burst.track, Op.WAIT, number, -1, last[burst.track], burst.begin, 0))
            number += 1
        last[burst.track] = burst.end
        if burst.taker < 0 or burst.end >= span.stop:
            continue
        ends = busy[burst.taker]
        at = int(np.searchsorted(ends, burst.end, side="right")) - 1
        begin = max(since, int(ends[at]) if at >= 0 else since)
        rows.append((burst.track, Op.EMIT, number, -1, burst.end, burst.end, 0))
        rows.append((burst.taker, Op.WAIT, number, -1, min(begin, burst.end), burst.end, 0))
        number += 1
    return anchors(rows)


def _clusters(every: list[Burst]) -> Iterator[int]:
    """Give for each burst when the last one began that overlaps it and has the same giver."""
    first, reach = dict[int, int](), dict[int, int]()
    found = list[tuple[int, int]]()
    for number, burst in enumerate(every):
        giver = burst.giver
        if burst.begin >= reach.get(giver, burst.begin):
            first[giver] = number
        reach[giver] = max(reach.get(giver, burst.end), burst.end)
        found.append((giver, first[giver]))
    latest = dict(zip(found, (burst.begin for burst in every), strict=True))
    return (latest[cluster] for cluster in found)


def _stretches(span: Span, track: int) -> list[tuple[int, int]]:
    """Give the bursts of a thread within the span."""
    lane = span.host.lanes[track].lane if track in span.host.lanes else None
    if lane is None or not len(lane):
        return []
    whole = union(lane.start, lane.end)
    near = (whole.end > span.start) & (whole.start < span.stop)
    begin = np.maximum(whole.start[near], span.start).tolist()
    return list(zip(begin, np.minimum(whole.end[near], span.stop).tolist(), strict=True))


def _edges(threads: Threads, track: int) -> Int64:
    events, mine = threads.trace.events, threads.of(track)
    calls = mine[np.isin(events.category[mine], _API)]
    return np.sort(np.concatenate((events.start[calls], events.end[calls])))


def _is_idle(edges: Int64, lo: int, hi: int) -> bool:
    """Tell whether a thread began and ended nothing strictly inside ``(lo, hi)``."""
    return bool(np.searchsorted(edges, lo, side="right") == np.searchsorted(edges, hi))
