"""Collectives of a training without devices as activities: who starts them, who waits for them.

gloo's threads carry them out, each one after another, as streams do. The training thread hands each
over inside a call of ``c10d``, and goes on; where it has no frame and one is under way it waits.
"""

import re
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.intervals import piece_at, union
from gapless.accounting.ranks.gloo import HostCollectives, host_collectives
from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.ledger import Ledger
from gapless.model.trace import Int32, Int64
from gapless.replay.graph.anchors import Anchors, make_anchors
from gapless.replay.graph.launch_order import NEVER
from gapless.replay.graph.nodes import GraphWork, Op
from gapless.replay.graph.span import GraphSpan

_CALL: Final = re.compile(r"^c10d::")
_COMM: Final = np.array([leaf.startswith("comm.") for leaf in LEAVES])
_ISSUE: Final = np.array([leaf.startswith("idle.comm.") for leaf in LEAVES])
_SILENCE: Final = LEAF["idle.host.unframed"]


class HostExchange(Struct, frozen=True):
    """The collectives that a span hands over: as activities, with the anchors that order them."""

    work: GraphWork
    streams: tuple[tuple[int, int], ...]  # (0, the thread that carries them out)
    backlog_ends: Int64  # of what was under way before the span; −1 none
    anchors: Anchors


def find_exchange(span: GraphSpan, ledger: Ledger) -> HostExchange:
    """Find the collectives that the training thread hands over in a span, and its waits for them.

    ``work`` holds observed times: what a collective takes after the last rank has come is known
    only with the others.
    """
    collectives = host_collectives(span.joined_trace.threads)
    calls = _find_calls(span)
    launches = _launch_instants(span, collectives, calls)
    order = np.argsort(launches, kind="stable")
    inside = order[(launches[order] >= span.start) & (launches[order] < span.stop)]
    tracks = span.joined_trace.threads.trace.events.track[collectives.event].astype(np.int64)
    streams, stream = np.unique(tracks, return_inverse=True)
    waits = _find_waits(span, ledger, collectives, calls)
    ends = _release_ends(collectives, waits)
    started = (launches < span.start) & (ends > span.start)
    backlog_ends = np.array(
        [int(ends[started & (stream == index)].max(initial=-1)) for index in range(len(streams))],
        np.int64,
    )
    work = _make_work(collectives, launches, ends, stream.astype(np.int32), inside)
    return HostExchange(
        work,
        tuple((0, track) for track in streams.tolist()),
        backlog_ends,
        _make_anchors(span, launches[inside], ends[inside], waits),
    )


def _find_calls(span: GraphSpan) -> Int64:
    """Return the calls that hand collectives over, in order."""
    threads = span.joined_trace.threads
    events = threads.trace.events
    is_call = np.array([_CALL.match(name) is not None for name in threads.trace.names], bool)
    calls = np.flatnonzero(
        is_call[events.name] & (events.category == category.CPU_OP) & (events.end > events.start)
    )
    return calls[np.argsort(events.start[calls], kind="stable")]


def _launch_instants(span: GraphSpan, collectives: HostCollectives, calls: Int64) -> Int64:
    """Return when the training thread handed each over: within its call, at the latest at its end.

    Calls and collectives have the same order. Where their numbers differ, each was handed over when
    it began.
    """
    events = span.joined_trace.threads.trace.events
    begin = collectives.start
    if len(calls) != len(begin) or (events.start[calls] > begin).any():
        return begin
    return np.minimum(events.end[calls], begin)


def _find_waits(
    span: GraphSpan, ledger: Ledger, collectives: HostCollectives, calls: Int64
) -> Int64:
    """Return the stretches in which the training thread waits for collectives: (start, end) rows.

    Besides what the account calls so: inside frames of communication that hand nothing over, and
    silences while one is under way, whose mark ends late where its thread lacked a processor. A
    stretch ends where the thread goes on: waits for several, one after another, are one.
    """
    events = span.joined_trace.threads.trace.events
    call_lane = union(events.start[calls], events.end[calls])
    mark_lane = union(collectives.start, collectives.end)
    start, end, leaf = ledger.start, ledger.end, ledger.leaf
    is_issue = _ISSUE[leaf] & (piece_at(call_lane, start) < 0)
    mark = piece_at(mark_lane, start)
    is_silence = (leaf == _SILENCE) & (mark >= 0) & (end <= np.append(mark_lane.end, 0)[mark])
    rows = np.flatnonzero(_COMM[leaf] | is_issue | is_silence)
    start, end = start[rows], end[rows]
    is_first = np.append(True, start[1:] > end[:-1])[: len(rows)]
    is_last = np.append(is_first[1:], True)[: len(rows)]
    return np.stack((start[is_first], end[is_last]), axis=1).reshape(-1, 2)


def _release_ends(collectives: HostCollectives, waits: Int64) -> Int64:
    """Return when each collective was over: its mark may end after who waited for it went on."""
    ends = collectives.end.copy()
    for start, end in waits.tolist():
        running = np.flatnonzero((collectives.start < end) & (ends > end) & (collectives.end > end))
        if len(running) and not ((ends > start) & (ends <= end)).any():
            ends[running[np.argmin(ends[running])]] = end
    return np.maximum(ends, collectives.start + 1)


def _make_work(
    collectives: HostCollectives, launches: Int64, ends: Int64, stream: Int32, rows: Int64
) -> GraphWork:
    """Return the collectives as activities, in the order in which they were handed over."""
    previous_end = _previous_ends(collectives, ends, stream)[rows]
    start, launch = collectives.start[rows], launches[rows]
    is_queued = previous_end > launch
    return GraphWork(
        stream=stream[rows].astype(np.int32),
        duration=ends[rows] - start,
        lag=np.where(is_queued, 0, np.maximum(start - launch, 0)),
        gap=np.where(is_queued, np.maximum(start - previous_end, 0), 0),
        after=tuple(() for _ in rows.tolist()),
        leaf=np.full(len(rows), LEAF["comm.exposed"], np.int8),
        event=collectives.event[rows].astype(np.int32),
        slot=np.zeros(len(rows), np.int8),
    )


def _previous_ends(collectives: HostCollectives, ends: Int64, stream: Int32) -> Int64:
    """Return when the collective before each on its thread was over, NEVER for the first."""
    previous = np.full(len(ends), NEVER)
    for index in np.unique(stream).tolist():
        rows = np.flatnonzero(stream == index)
        rows = rows[np.argsort(collectives.start[rows], kind="stable")]
        previous[rows[1:]] = np.maximum.accumulate(ends[rows])[:-1]
    return previous


def _make_anchors(span: GraphSpan, launches: Int64, ends: Int64, waits: Int64) -> Anchors:
    """Return an anchor for each hand-over, and for each wait: for what was over last then."""
    main = span.joined_trace.threads.main
    rows = [
        (main, Op.LAUNCH, job, -1, instant, instant, 0)
        for job, instant in enumerate(launches.tolist())
    ]
    for start, end in waits.tolist():
        job = _awaited_job(launches, ends, start, end)
        if job >= 0 and span.start <= start and end <= span.stop:
            rows.append((main, Op.EVENT, job, -1, start, end, max(0, end - int(ends[job]))))
    return make_anchors(rows)


def _awaited_job(launches: Int64, ends: Int64, start: int, end: int) -> int:
    """Return the collective that was over last of those that ended in a wait, −1."""
    is_candidate = (launches < end) & (ends > start) & (ends <= end)
    rows = np.flatnonzero(is_candidate)
    return int(rows[np.argmax(ends[rows])]) if len(rows) else -1
