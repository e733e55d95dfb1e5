"""A window as a graph: which waits for which, and what each does in between."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.accounting.host.host import prepare_host
from gapless.accounting.host.steps import find_steps
from gapless.accounting.partition import JoinedTrace
from gapless.model.ledger import Ledger
from gapless.model.trace import Int64
from gapless.replay.graph.aligning import align_steps
from gapless.replay.graph.anchors import (
    Anchors,
    batch_anchors,
    launch_anchors,
    order_anchors,
    stack_anchors,
    step_anchors,
)
from gapless.replay.graph.lags import Lags, find_lags, measure_unexplained
from gapless.replay.graph.launch_order import EnqueuedWork, busy_leaves, collect_enqueued
from gapless.replay.graph.nodes import Graph, GraphThread, GraphWork, Refusal
from gapless.replay.graph.queue_capacity import QUEUE_CAPACITY, learn_queues
from gapless.replay.graph.segments import build_thread, host_stretches, ledger_stretches
from gapless.replay.graph.span import GraphSpan
from gapless.replay.graph.waits.handoffs import find_bursts, hand_off_anchors
from gapless.replay.graph.waits.host_exchange import find_exchange
from gapless.replay.graph.waits.syncs import sync_anchors

ALL_STEPS: Final = slice(None)
_MIN_LAUNCHED_SHARE: Final = 0.5  # of the activities: with fewer launch records nothing is replayed
_MAX_LOST_SHARE: Final = 0.05  # of the span: with more of it unrecorded nothing is replayed


def build_graph(
    joined_trace: JoinedTrace, ledger: Ledger, kept_steps: slice = ALL_STEPS
) -> Graph | Refusal:
    """Build the graph of a partitioned trace, or return why it cannot be replayed.

    Times are those of the trace, except lags and gaps, which are the usual ones of their class.
    Without devices it is one thread, which is simulated exactly. ``kept_steps``: only these.
    """
    steps = find_steps(joined_trace.threads)
    if steps is None or not ledger.rows or len(steps.boundaries) < 2:  # noqa: PLR2004
        return Refusal("the trace holds nothing that can be replayed")
    numbers = np.arange(len(steps.boundaries) - 1)[kept_steps]
    if not len(numbers):
        return Refusal("the trace holds no step of those that are replayed")
    span = GraphSpan(
        joined_trace,
        prepare_host(joined_trace.threads, joined_trace.activities),
        steps.boundaries[numbers[0] : numbers[-1] + 2],
        first_step=int(numbers[0]),
    )
    reason = _find_refusal(span, ledger)
    if reason is not None:
        return Refusal(reason)
    graph = (
        _device_graph(span, ledger) if len(joined_trace.activities) else _host_graph(span, ledger)
    )
    return align_steps(graph, joined_trace.threads.trace)


def _find_refusal(span: GraphSpan, ledger: Ledger) -> str | None:
    if span.joined_trace.threads.main < 0:
        return "no host thread was recorded"
    recorded = ledger.launches_recorded
    if recorded is not None and recorded < _MIN_LAUNCHED_SHARE:
        return f"only {recorded:.0%} of what the devices did has a record of its launch"
    health = span.joined_trace.threads.trace.health
    lost_ns = sum(max(0, min(hi, span.stop) - max(lo, span.start)) for lo, hi in health.lost)
    if lost_ns > _MAX_LOST_SHARE * (span.stop - span.start):
        return f"host events are missing in {lost_ns / (span.stop - span.start):.0%} of the time"
    return None


def _host_graph(span: GraphSpan, ledger: Ledger) -> Graph:
    """Return the graph of a training without devices; its collectives are activities."""
    main, exchange = span.joined_trace.threads.main, find_exchange(span, ledger)
    all_anchors = stack_anchors([step_anchors(span), batch_anchors(span), exchange.anchors])
    anchors = order_anchors(all_anchors, main, span)
    n_streams = len(exchange.streams)
    return Graph(
        threads=(build_thread(span, main, anchors, ledger_stretches(ledger)),),
        work=exchange.work,
        streams=exchange.streams,
        capacity=(QUEUE_CAPACITY,) * n_streams,
        backlog_ends=exchange.backlog_ends,
        steps=span.bounds[1:],
        on_device=False,
        start=span.start,
        unexplained=0.0,
        heads=(np.empty(0, np.int64),) * n_streams,
        counted_steps=_counted_steps(ledger, span),
    )


def _device_graph(span: GraphSpan, ledger: Ledger) -> Graph:
    """Return the graph of a training on one device or several."""
    rows = collect_enqueued(span)
    stream_queues = learn_queues(span, rows)
    waits = find_lags(span, rows)
    all_anchors = stack_anchors(
        [
            launch_anchors(rows, stream_queues),
            step_anchors(span),
            batch_anchors(span),
            sync_anchors(span, rows),
        ]
    )
    tracks = set(np.unique(all_anchors.track).tolist()) | {span.joined_trace.threads.main}
    handoffs = hand_off_anchors(span, find_bursts(span, tracks), all_anchors)
    all_anchors = stack_anchors([all_anchors, handoffs])
    ends = _step_ends(ledger, span)
    span_ns = int(ends[-1]) - span.start
    graph = Graph(
        threads=tuple(_graph_threads(span, all_anchors, tracks)),
        work=_make_work(rows.stream, rows.finish_ns - rows.start, waits),
        streams=rows.streams,
        capacity=stream_queues.capacity,
        backlog_ends=np.array(
            [int(head[-1]) if len(head) else -1 for head in stream_queues.heads], np.int64
        ),
        steps=ends,
        on_device=True,
        start=span.start,
        unexplained=measure_unexplained(rows, waits.late) / span_ns if span_ns > 0 else 0.0,
        heads=stream_queues.heads,
        counted_steps=_counted_steps(ledger, span),
    )
    return _name_work(graph, span, rows)


def _graph_threads(span: GraphSpan, anchors: Anchors, tracks: set[int]) -> Iterable[GraphThread]:
    """Return the threads, the training thread first."""
    main = span.joined_trace.threads.main
    for track in [main, *sorted(tracks - {main})]:
        thread_anchors = order_anchors(anchors, track, span)
        yield build_thread(span, track, thread_anchors, host_stretches(span, track))


def _make_work(stream: Int64, duration: Int64, waits: Lags) -> GraphWork:
    return GraphWork(
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


def _name_work(graph: Graph, span: GraphSpan, rows: EnqueuedWork) -> Graph:
    """Describe each activity."""
    work = replace(
        graph.work,
        leaf=busy_leaves(span, rows.act_rows).astype(np.int8),
        event=rows.event.astype(np.int32),
        slot=rows.is_first.astype(np.int8),
    )
    return replace(graph, work=work)


def _step_ends(ledger: Ledger, span: GraphSpan) -> Int64:
    """Return when all devices were through with each step."""
    n_devices = len({row.device for row in ledger.rows})
    ends = np.array([row.end for row in ledger.rows], np.int64).reshape(n_devices, -1)
    first = span.first_step
    return ends[:, first : first + len(span.bounds) - 1].max(axis=0)


def _counted_steps(ledger: Ledger, span: GraphSpan) -> tuple[int, ...]:
    first_device, first = ledger.rows[0].device, span.first_step
    rows = [row for row in ledger.rows if row.device == first_device]
    kept_rows = rows[first : first + len(span.bounds) - 1]
    return tuple(index for index, row in enumerate(kept_rows) if not row.left_out)
