"""Waits of one stream for another that were recorded (``enable_cuda_sync_events``)."""

from bisect import bisect_left
from collections import defaultdict

import numpy as np

from gapless.model import category
from gapless.model.trace import Int64, Trace
from gapless.replay.span import Span
from gapless.replay.works import Enqueued

Waits = dict[int, tuple[int, ...]]  # row → rows of other streams that must have ended


def recorded_waits(span: Span, rows: Enqueued) -> Waits:
    """Give what activities waited for, as the devices' own records tell it.

    What was enqueued last on the recorded stream before the event was recorded, in the order of
    calls, must have ended before what is enqueued next on the waiting stream after the call.
    """
    trace = span.joined.threads.trace
    records = wait_records(trace, "Wait")
    if not len(records):
        return {}
    starts = call_starts(trace)
    begins = [rows.begin[mine].tolist() for mine in rows.on]
    number = {pair: at for at, pair in enumerate(rows.streams)}
    found = defaultdict[int, set[int]](set)
    for waited, recorded, here, there in _ties(trace, records, starts):
        mine, other = number.get(here, -1), number.get(there, -1)
        if mine < 0 or other < 0 or mine == other:
            continue
        after = bisect_left(begins[mine], waited)
        before = bisect_left(begins[other], recorded) - 1
        if after < len(begins[mine]) and before >= 0:
            found[int(rows.on[mine][after])].add(int(rows.on[other][before]))
    return {row: tuple(sorted(one for one in others if one < row)) for row, others in found.items()}


def wait_records(trace: Trace, word: str) -> Int64:
    """Give the devices' own records of synchronisations whose names have a word."""
    named = np.array([word in name for name in trace.names], bool)
    events = trace.events
    return np.flatnonzero((events.category == category.SYNC) & named[events.name])


def call_starts(trace: Trace) -> dict[int, int]:
    """Give when each call began, by correlation id."""
    events = trace.events
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & (events.correlation > 0))
    return dict(zip(events.correlation[calls].tolist(), events.start[calls].tolist(), strict=True))


def _ties(
    trace: Trace, records: Int64, starts: dict[int, int]
) -> list[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """Give for each wait when it was called, when its event was recorded, and both streams."""
    events, gpu = trace.events, trace.gpu
    detail = events.detail[records]
    out = list[tuple[int, int, tuple[int, int], tuple[int, int]]]()
    columns = (
        events.correlation[records],
        gpu.wait_event[detail],
        gpu.device[detail],
        gpu.stream[detail],
        gpu.wait_stream[detail],
    )
    for wait, event, device, stream, other in zip(*(c.tolist() for c in columns), strict=True):
        waited, recorded = starts.get(wait), starts.get(event)
        if waited is not None and recorded is not None:
            out.append((waited, recorded, (device, stream), (device, other)))
    return out
