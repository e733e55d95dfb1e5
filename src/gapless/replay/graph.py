"""A window as a graph: who waits for whom, and what each does in between."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from gapless.accounting.host import host
from gapless.accounting.partition import Joined
from gapless.accounting.stages import NO_STAGES, Stages
from gapless.accounting.steps import find_steps
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.aligning import aligned
from gapless.replay.anchors import Anchors, batches, in_order, launches, stacked, steps
from gapless.replay.capacity import queues
from gapless.replay.handoffs import bursts, handed
from gapless.replay.lags import Lags, lags, unexplained
from gapless.replay.nodes import Graph, Refusal, Thread, Work
from gapless.replay.segments import of_host, of_ledger, thread
from gapless.replay.span import Span
from gapless.replay.syncs import syncs
from gapless.replay.works import Enqueued, busy_leaves, enqueued

_LAUNCHED: Final = 0.5  # of the activities: with fewer launch records nothing is replayed
_LOST: Final = 0.05  # of the span: with more of it unrecorded nothing is replayed


def build(joined: Joined, ledger: Ledger, stages: Stages = NO_STAGES) -> Graph | Refusal:
    """Make the graph of a trace that was partitioned, or say why it cannot be replayed.

    Times are those of the trace but for lags and gaps, which are the usual ones of their class.
    Without devices it is one thread, which is played exactly.
    """
    found = find_steps(joined.threads)
    if found is None or not ledger.rows or len(found.boundaries) < 2:  # noqa: PLR2004
        return Refusal("the trace holds nothing that can be replayed")
    span = Span(joined, host(joined.threads, joined.activities, stages), found.boundaries)
    reason = _why_not(span, ledger)
    if reason is not None:
        return Refusal(reason)
    graph = _on_device(span, ledger) if len(joined.activities) else _on_host(span, ledger)
    return aligned(graph, joined.threads.trace)


def _why_not(span: Span, ledger: Ledger) -> str | None:
    if span.joined.threads.main < 0:
        return "no host thread was recorded"
    recorded = ledger.launches_recorded
    if recorded is not None and recorded < _LAUNCHED:
        return f"only {recorded:.0%} of what the devices did has a record of its launch"
    health = span.joined.threads.trace.health
    lost = sum(max(0, min(hi, span.stop) - max(lo, span.start)) for lo, hi in health.lost)
    if lost > _LOST * (span.stop - span.start):
        return f"host events are missing in {lost / (span.stop - span.start):.0%} of the time"
    return None


def _on_host(span: Span, ledger: Ledger) -> Graph:
    """Give the graph of a training without devices."""
    main = span.joined.threads.main
    mine = in_order(stacked([steps(span), batches(span)]), main, span)
    none = np.empty(0, np.int64)
    return Graph(
        threads=(thread(span, main, mine, of_ledger(ledger)),),
        work=_work(none, none, Lags(none, none, 0, (), none)),
        streams=(),
        capacity=(),
        begun=none,
        steps=span.bounds[1:],
        on_device=False,
        start=span.start,
        unexplained=0.0,
        counted=_counted(ledger),
    )


def _on_device(span: Span, ledger: Ledger) -> Graph:
    """Give the graph of a training on one device or several."""
    rows = enqueued(span)
    room = queues(span, rows)
    waits = lags(span, rows)
    every = stacked([launches(rows, room), steps(span), batches(span), syncs(span, rows)])
    tracks = set(np.unique(every.track).tolist()) | {span.joined.threads.main}
    handoffs = handed(span, bursts(span, tracks), every)
    every = stacked([every, handoffs])
    ends = _ends(ledger, len(span.bounds) - 1)
    whole = int(ends[-1]) - span.start
    graph = Graph(
        threads=tuple(_threads(span, every, tracks)),
        work=_work(rows.stream, rows.stopped - rows.start, waits),
        streams=rows.streams,
        capacity=room.capacity,
        begun=np.array([int(head[-1]) if len(head) else -1 for head in room.heads], np.int64),
        steps=ends,
        on_device=True,
        start=span.start,
        unexplained=unexplained(rows, waits.late) / whole if whole > 0 else 0.0,
        heads=room.heads,
        counted=_counted(ledger),
    )
    return _named(graph, span, rows)


def _threads(span: Span, every: Anchors, tracks: set[int]) -> Iterable[Thread]:
    """Give the threads, the training thread first."""
    main = span.joined.threads.main
    for track in [main, *sorted(tracks - {main})]:
        mine = in_order(every, track, span)
        yield thread(span, track, mine, of_host(span, track))


def _work(stream: Int64, duration: Int64, waits: Lags) -> Work:
    return Work(
        stream=stream.astype(np.int32),
        duration=duration,
        lag=waits.lag,
        gap=waits.gap,
        after=waits.after,
        leaf=np.zeros(len(stream), np.int8),
        event=np.full(len(stream), -1, np.int32),
        late=waits.late,
        slot=np.ones(len(stream), np.int8),
        hop=waits.hop,
    )


def _named(graph: Graph, span: Span, rows: Enqueued) -> Graph:
    """Say of each activity what it is."""
    work = replace(
        graph.work,
        leaf=busy_leaves(span, rows.at).astype(np.int8),
        event=rows.event.astype(np.int32),
        slot=rows.first.astype(np.int8),
    )
    return replace(graph, work=work)


def _ends(ledger: Ledger, count: int) -> Int64:
    """Give when all devices were through with each step."""
    ends = np.array([row.end for row in ledger.rows], np.int64).reshape(-1, count)
    return ends.max(axis=0)


def _counted(ledger: Ledger) -> tuple[int, ...]:
    first = ledger.rows[0].device
    rows = [row for row in ledger.rows if row.device == first]
    return tuple(at for at, row in enumerate(rows) if not row.left_out)
