"""Waits of one stream for another that were recorded (``enable_cuda_sync_events``)."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from gapless.accounting.ranks.peers import call_starts
from gapless.model import category
from gapless.model.trace import Int32, Int64, Trace
from gapless.replay.graph.launch_order import EnqueuedWork
from gapless.replay.graph.span import GraphSpan

_RECORD: Final = re.compile(r"EventRecord")
_ORDERING: Final = re.compile(r"EventRecord|StreamWaitEvent|Launch|Memcpy|Memset")
_FRAMES: Final = (category.CPU_OP, category.USER_ANNOTATION, category.PYTHON_FUNCTION)
Waits = dict[int, tuple[int, ...]]  # row → rows of other streams that must have ended


def recorded_waits(span: GraphSpan, rows: EnqueuedWork) -> Waits:
    """Return what activities waited for, by the devices' own records.

    What was enqueued last on the recorded stream before the event was recorded, in the order of
    calls, must have ended before what is enqueued next on the waiting stream after the call.
    Some records do not say which event (torch's exchanges of gradients): if the thread recorded
    one right before, in the same frame, it is of what it had launched last on another stream.
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
    for waiting, awaited in _find_adjacent(span, rows, records, number):
        waits[waiting].add(awaited)
    ordered = {
        row: tuple(sorted(awaited for awaited in awaited_rows if awaited < row))
        for row, awaited_rows in waits.items()
    }
    return {row: awaited_rows for row, awaited_rows in ordered.items() if awaited_rows}


def _find_adjacent(
    span: GraphSpan, rows: EnqueuedWork, records: Int64, number: dict[tuple[int, int], int]
) -> Iterator[tuple[int, int]]:
    """Yield what waits, and for what, where a record names no event."""
    trace = span.joined_trace.threads.trace
    events, gpu = trace.events, trace.gpu
    calls_by_id = _calls_after_records(trace)
    for record in records[gpu.wait_event[events.detail[records]] < 0].tolist():
        detail = events.detail[record]
        stream = number.get((int(gpu.device[detail]), int(gpu.stream[detail])), -1)
        calls = calls_by_id.get(int(events.correlation[record]))
        if stream < 0 or calls is None:
            continue
        wait, before = calls
        own_rows = np.flatnonzero((rows.thread == events.track[wait]) & (rows.stream != stream))
        own_stream = rows.stream_rows[stream]
        earlier = int(np.searchsorted(rows.begin[own_rows], int(events.start[before]))) - 1
        later = int(np.searchsorted(rows.begin[own_stream], int(events.start[wait])))
        if earlier >= 0 and later < len(own_stream):
            yield int(own_stream[later]), int(own_rows[earlier])


def _calls_after_records(trace: Trace) -> dict[int, tuple[int, int]]:
    """Return the calls right before which an event was recorded, in the same frame, and that call.

    By their correlation.
    """
    events, calls = trace.events, _ordering_calls(trace)
    is_record = np.array([_RECORD.search(name) is not None for name in trace.names], bool)
    edges_by_track = _frame_edges(trace, events.track[calls])
    pairs = dict[int, tuple[int, int]]()
    is_pair = is_record[events.name[calls[:-1]]] & (
        events.track[calls[:-1]] == events.track[calls[1:]]
    )
    for position in np.flatnonzero(is_pair).tolist():
        before, call = int(calls[position]), int(calls[position + 1])
        edges = edges_by_track[int(events.track[call])]
        lo = bisect_left(edges, int(events.end[before]))
        if lo == bisect_left(edges, int(events.start[call])):
            pairs[int(events.correlation[call])] = call, before
    return pairs


def _frame_edges(trace: Trace, tracks: Int32) -> dict[int, list[int]]:
    """Return when frames of threads begin and end, besides calls of the driver, by thread."""
    events = trace.events
    frames = np.flatnonzero(np.isin(events.category, _FRAMES) & np.isin(events.track, tracks))
    edges = dict[int, list[int]]()
    for track in np.unique(tracks).tolist():
        track_frames = frames[events.track[frames] == track]
        edges[track] = np.sort(
            np.concatenate((events.start[track_frames], events.end[track_frames]))
        ).tolist()
    return edges


def _ordering_calls(trace: Trace) -> Int64:
    """Return the calls that record events, wait for them, or launch work: thread by thread."""
    events = trace.events
    is_meant = np.array([_ORDERING.search(name) is not None for name in trace.names], bool)
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & is_meant[events.name])
    return calls[np.lexsort((events.start[calls], events.track[calls]))]


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
