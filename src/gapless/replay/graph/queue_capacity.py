"""The queue of a stream is finite: a launch call waits for room in it, and is not to blame."""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.trace import Int64
from gapless.replay.graph.imputation import Bool, impute
from gapless.replay.graph.launch_order import NEVER, EnqueuedWork, find_unrecorded
from gapless.replay.graph.span import GraphSpan

QUEUE_CAPACITY: Final = 1023  # launch calls outstanding: five of five saturated runs on an H200
_NEAR_FULL: Final = 64  # places: nearer to the end than that, a long call may have waited for room
_MIN_PLATEAU: Final = 500  # places: a plateau below this is not the end of a queue
_PLATEAU_MARGIN, _MIN_PLATEAU_CALLS = 2, 10  # a plateau: how near to the maximum, and how often
_MIN_WAIT_NS, _MIN_WAIT_RATIO = (
    60_000,
    8,
)  # ns; a call that waited is longer, and so much longer than usual


class Queues(Struct, frozen=True):
    """What launch calls found of their streams' queues."""

    capacity: tuple[int, ...]  # of each stream, in launch calls
    is_blocked: Bool  # of each activity: its call waited for room
    usual: Int64  # the median of calls of its name that did not
    heads: tuple[Int64, ...]  # as ``EnqueuedWork.heads``, with what must have been there unrecorded


def learn_queues(span: GraphSpan, rows: EnqueuedWork) -> Queues:
    """Learn the ends of queues from how many calls were outstanding at most, and who waited."""
    outstanding = [_count_outstanding(rows, stream) for stream in range(len(rows.streams))]
    capacity = tuple(_find_plateau(counts) for _, counts in outstanding)
    length = rows.end - rows.begin
    api = span.joined_trace.threads.trace.events.name[rows.call].astype(np.int64)
    usual = impute(length, rows.is_first & ~rows.blocks, api)
    unknown = find_unrecorded(span, rows)
    is_long = (
        (length > _MIN_WAIT_NS) & (length > _MIN_WAIT_RATIO * usual) & rows.is_first & ~rows.blocks
    )
    is_blocked, heads = np.zeros(len(rows), bool), list(rows.heads)
    for stream, ((calls, counts), room) in enumerate(zip(outstanding, capacity, strict=True)):
        unknown_until = unknown.get(stream, NEVER)
        is_early = rows.begin[calls] < unknown_until
        is_blocked[calls] = is_long[calls] & (is_early | (counts >= room - _NEAR_FULL))
        if unknown_until > NEVER:
            let_in = np.minimum(rows.end - usual, unknown_until)[calls[is_early]]
            heads[stream] = _reckon_head(is_blocked[calls[is_early]], let_in, room, unknown_until)
    return Queues(capacity, is_blocked, usual, tuple(heads))


def _reckon_head(is_blocked: Bool, let_in: Int64, room: int, unknown_until: int) -> Int64:
    """Estimate what was in a queue unrecorded: each call that waited was let in by the end of one.

    ``let_in``: when each early call got its place; ``unknown_until``: when the first of them began
    to run.
    """
    if not is_blocked.any():
        return np.array([unknown_until], np.int64)
    first_blocked = int(is_blocked.argmax())
    count = max(room - first_blocked, 1)
    entries = let_in[first_blocked:][:count]
    return np.sort(np.append(entries, np.full(count - len(entries), unknown_until)))


def _count_outstanding(rows: EnqueuedWork, stream: int) -> tuple[Int64, Int64]:
    """Return the first activities of calls on a stream, and what was outstanding at each call."""
    stream_rows = rows.stream_rows[stream]
    calls = stream_rows[rows.is_first[stream_rows]]
    heads = rows.heads[stream]
    before = np.concatenate((heads, rows.finish_ns[calls]))
    n_enqueued = len(heads) + np.arange(len(calls))
    n_done = np.searchsorted(np.sort(before), rows.begin[calls], side="right")
    return calls, n_enqueued - n_done


def _find_plateau(counts: Int64) -> int:
    """Return the maximum that was outstanding, if frequent; else what is known of devices."""
    highest = int(counts.max(initial=0))
    is_steady = int((counts >= highest - _PLATEAU_MARGIN).sum()) >= _MIN_PLATEAU_CALLS
    return highest if highest >= _MIN_PLATEAU and is_steady else QUEUE_CAPACITY
