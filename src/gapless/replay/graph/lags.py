"""When activities start: after their launch, their stream, other streams, or nothing known.

Found from timestamps alone. An activity shows the lag of its launch only if its stream was empty
when it was launched, and the gap between activities only if it was enqueued before the other was
over; what it does not show is taken as usual for its class.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.intervals import overlap, union
from gapless.model.trace import Int64
from gapless.replay.graph.imputation import Bool, impute, pair_keys
from gapless.replay.graph.launch_order import MAX_WAIT_GAP, NEVER, EnqueuedWork, find_unrecorded
from gapless.replay.graph.nodes import near_gaps
from gapless.replay.graph.span import GraphSpan
from gapless.replay.graph.waits.event_waits import Waits, recorded_waits

# ns: later than that, something else was waited for (measured on 49 traces)
MIN_LATE_NS: Final = 8_000


class Lags(Struct, frozen=True):
    """What decides when each activity starts; in ns."""

    lag: Int64
    gap: Int64
    hop: int
    after: tuple[tuple[int, ...], ...]  # rows of other streams
    late: Int64


def find_lags(span: GraphSpan, rows: EnqueuedWork) -> Lags:
    """Find what each activity waited for, with imputed times."""
    reference = np.where(rows.blocks, rows.begin, rows.end)
    waits = recorded_waits(span, rows)
    lag, gap = _usual_lags(span, rows, reference, waits)
    lag[rows.follows] = 0
    gap[rows.follows] = np.maximum(rows.start - rows.previous_end, 0)[rows.follows]
    is_first = _is_first_unrecorded(span, rows)
    gap[is_first] = 0  # what was before is assumed to end where it begins
    arrival, near_gap = reference + lag, near_gaps(lag, gap, rows.is_first.astype(np.int8))
    gap_after = np.where(rows.previous_end > arrival, gap, near_gap)
    queue_end = np.where(rows.previous_end > NEVER, rows.previous_end + gap_after, NEVER)
    due = np.where(rows.previous_end > arrival, queue_end, np.maximum(arrival, queue_end))
    is_known = ~rows.follows & ~is_first
    lateness = np.where(is_known, rows.start - due, 0)
    waits = _infer_waits(rows, waits, lateness)
    wait_ends = _wait_ends(rows, waits)
    is_binding = (wait_ends > NEVER) & (lateness > MIN_LATE_NS)
    hop = int(np.median((rows.start - wait_ends)[is_binding])) if is_binding.any() else 0
    hop = max(hop, 0)
    due = np.maximum(due, np.where(wait_ends > NEVER, wait_ends + hop, NEVER))
    remaining = np.where(is_known, rows.start - due, 0)
    late = np.where(remaining > MIN_LATE_NS, remaining, 0)
    return Lags(lag, gap, hop, tuple(waits.get(row, ()) for row in range(len(rows))), late)


def _is_first_unrecorded(span: GraphSpan, rows: EnqueuedWork) -> Bool:
    """Return which activities were the first after work that was not recorded."""
    is_first = np.zeros(len(rows), bool)
    is_first[[rows.stream_rows[stream][0] for stream in find_unrecorded(span, rows)]] = True
    return is_first


def measure_unexplained(rows: EnqueuedWork, late: Int64) -> int:
    """Measure the time in which nothing ran because of what no edge explains, in ns."""
    late_rows = np.flatnonzero(late)
    if not len(late_rows):
        return 0
    acts = rows.acts
    device = acts.device[rows.act_rows]
    total = 0
    for number in np.unique(device[late_rows]).tolist():
        device_rows = late_rows[device[late_rows] == number]
        wait_lane = union(rows.start[device_rows] - late[device_rows], rows.start[device_rows])
        on_device = acts.device == number
        run_lane = union(acts.start[on_device], acts.end[on_device])
        length = wait_lane.end - wait_lane.start
        total += int((length - overlap(run_lane, wait_lane.start, wait_lane.end)).sum())
    return total


def _usual_lags(
    span: GraphSpan, rows: EnqueuedWork, reference: Int64, waits: Waits
) -> tuple[Int64, Int64]:
    """Return for each activity the lag and the gap that are usual for its class."""
    events, acts = span.joined_trace.threads.trace.events, rows.acts
    name = events.name[rows.event].astype(np.int64)
    api = events.name[rows.call].astype(np.int64)
    kind = acts.kind[rows.act_rows] * 2 + rows.blocks
    is_own, may_wait = ~rows.follows & ~_is_first_unrecorded(span, rows), _may_have_waited(rows)
    may_wait[list(waits)] = True
    is_empty = is_own & rows.is_first & (rows.previous_end <= rows.begin)
    is_between = (
        is_own & rows.is_first & (rows.previous_end > rows.begin) & (rows.previous_end <= reference)
    )
    size = _size_classes(span, rows)
    observed_ns = rows.start - reference
    lag = impute(
        observed_ns,
        (is_empty | is_between) & (rows.blocks | ~(may_wait & (observed_ns > MIN_LATE_NS))),
        pair_keys(pair_keys(pair_keys(api, kind), size), name),
        pair_keys(pair_keys(api, kind), size),
        pair_keys(api, kind),
        kind,
    )
    is_queued = is_own & (rows.previous_end > reference + lag)
    previous = np.where(rows.previous >= 0, rows.previous, 0)
    previous_name = events.name[acts.event[previous]].astype(np.int64)
    is_inside = is_own & ~rows.is_first
    kinds = pair_keys(acts.kind[previous], kind)
    positions = np.arange(len(rows))
    graph_position = positions - np.maximum.accumulate(
        np.where(rows.is_first, positions, 0)
    )  # in its graph
    observed_ns = np.maximum(rows.start - rows.previous_end, 0)
    gap = impute(
        observed_ns,
        is_queued & ~(may_wait & (observed_ns > MIN_LATE_NS)),
        pair_keys(graph_position, pair_keys(previous_name, name)),
        pair_keys(pair_keys(previous_name, name), is_inside.astype(np.int64)),
        pair_keys(kinds, is_inside.astype(np.int64)),
        kinds,
    )
    return lag, gap


def _may_have_waited(rows: EnqueuedWork) -> Bool:
    """Return which rows may have waited for another stream: something ended there just before."""
    window_start = rows.start - MAX_WAIT_GAP
    n_near = np.zeros(len(rows), np.int64)
    for sign, groups in [(1, [np.arange(len(rows))]), (-1, rows.stream_rows)]:
        for group in groups:
            ends = np.sort(rows.finish_ns[group])
            targets = group if sign < 0 else slice(None)
            end_rows = np.searchsorted(ends, rows.start[targets], side="right")
            n_near[targets] += sign * (end_rows - np.searchsorted(ends, window_start[targets]))
    return n_near > 0


def _size_classes(span: GraphSpan, rows: EnqueuedWork) -> Int64:
    """Return the class of size of copies that are waited for: they are staged piece by piece."""
    trace = span.joined_trace.threads.trace
    size = trace.gpu.bytes[trace.events.detail[rows.event]]
    log = np.log2(np.maximum(size, 1)).astype(np.int64)
    return np.where(rows.blocks & (size > 0), log, -1)


def _infer_waits(rows: EnqueuedWork, waits: Waits, lateness: Int64) -> Waits:
    """Let late activities wait for what ended last, shortly before them, on another stream."""
    inferred = dict(waits)
    order = np.argsort(rows.finish_ns, kind="stable")
    ends = rows.finish_ns[order]
    late_rows = np.flatnonzero((lateness > MIN_LATE_NS) & ~rows.follows)
    late_rows = late_rows[~np.isin(late_rows, np.fromiter(waits, np.int64, len(waits)))]
    lo = np.searchsorted(ends, rows.start[late_rows] - MAX_WAIT_GAP)
    hi = np.searchsorted(ends, rows.start[late_rows], side="right")
    for row, begin, end in zip(late_rows.tolist(), lo.tolist(), hi.tolist(), strict=True):
        nearby = order[begin:end][::-1]
        is_other = (rows.stream[nearby] != rows.stream[row]) & (nearby < row)
        if is_other.any():
            inferred[row] = (int(nearby[int(is_other.argmax())]),)
    return inferred


def _wait_ends(rows: EnqueuedWork, waits: Waits) -> Int64:
    """Return the latest end of what each row waits for, NEVER."""
    wait_ends = np.full(len(rows), NEVER)
    if not waits:
        return wait_ends
    waiting = np.repeat(list(waits), [len(awaited) for awaited in waits.values()])
    awaited_rows = np.array([row for awaited in waits.values() for row in awaited], np.int64)
    np.maximum.at(wait_ends, waiting, rows.finish_ns[awaited_rows])
    return wait_ends
