"""Waits of one stream for another that were recorded (``enable_cuda_sync_events``)."""

from bisect import bisect_left
from collections import defaultdict

import numpy as np

from gapless.accounting.ranks.peers import call_starts
from gapless.model import category
from gapless.model.trace import Int64, Trace
from gapless.replay.graph.launch_order import EnqueuedWork
from gapless.replay.graph.span import GraphSpan

Waits = dict[int, tuple[int, ...]]  # row → rows of other streams that must have ended


def recorded_waits(span: GraphSpan, rows: EnqueuedWork) -> Waits:
    """Return what activities waited for, by the devices' own records.

    What was enqueued last on the recorded stream before the event was recorded, in the order of
    calls, must have ended before what is enqueued next on the waiting stream after the call.
    """
    trace = span.joined_trace.threads.trace
    records = wait_records(trace, "Wait")
    if not len(records):
        return {}
    starts = call_starts(trace)
    begins = [rows.begin[stream_rows].tolist() for stream_rows in rows.stream_rows]
    number = {pair: index for index, pair in enumerate(rows.streams)}
    waits = defaultdict[int, set[int]](set)
    for wait_start, record_start, waiting_pair, recorded_pair in _find_ties(trace, records, starts):
        waiting, recorded_stream = number.get(waiting_pair, -1), number.get(recorded_pair, -1)
        if waiting < 0 or recorded_stream < 0 or waiting == recorded_stream:
            continue
        later = bisect_left(begins[waiting], wait_start)
        earlier = bisect_left(begins[recorded_stream], record_start) - 1
        if later < len(begins[waiting]) and earlier >= 0:
            waits[int(rows.stream_rows[waiting][later])].add(
                int(rows.stream_rows[recorded_stream][earlier])
            )
    return {
        row: tuple(sorted(awaited for awaited in awaited_rows if awaited < row))
        for row, awaited_rows in waits.items()
    }


def wait_records(trace: Trace, word: str) -> Int64:
    """Return the devices' own records of synchronisations whose names have a word."""
    is_match = np.array([word in name for name in trace.names], bool)
    events = trace.events
    return np.flatnonzero((events.category == category.SYNC) & is_match[events.name])


def _find_ties(
    trace: Trace, records: Int64, starts: dict[int, int]
) -> list[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """Return for each wait when it was called, when its event was recorded, and both streams."""
    events, gpu = trace.events, trace.gpu
    detail = events.detail[records]
    ties = list[tuple[int, int, tuple[int, int], tuple[int, int]]]()
    columns = (
        events.correlation[records],
        gpu.wait_event[detail],
        gpu.device[detail],
        gpu.stream[detail],
        gpu.wait_stream[detail],
    )
    for wait, event, device, stream, wait_stream in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        wait_start, record_start = starts.get(wait), starts.get(event)
        if wait_start is not None and record_start is not None:
            ties.append((wait_start, record_start, (device, stream), (device, wait_stream)))
    return ties
