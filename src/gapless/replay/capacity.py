"""The queue of a stream has an end: a launch call waits there for room, and is not to blame."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.model.trace import Int64
from gapless.replay.span import Span
from gapless.replay.typical import Bool, imputed
from gapless.replay.works import NEVER, Enqueued, unheard

PLACES: Final = 1023  # launch calls outstanding: five of five saturated runs on an H200
_NEAR: Final = 64  # places: nearer to the end than that, a long call may have waited for room
_FULL: Final = 500  # places: a plateau below this is no end of a queue
_STEADY, _TIMES = 2, 10  # a plateau: so near to the most, so often
_LONG, _TIMES_USUAL = 60_000, 8  # ns; a call that waited is longer, and so much longer than usual


@dataclass(frozen=True)
class Queues:
    """What launch calls found of their streams' queues."""

    capacity: tuple[int, ...]  # of each stream, in launch calls
    blocked: Bool  # of each activity: its call waited for room
    usual: Int64  # the median of calls of its name that did not
    heads: tuple[Int64, ...]  # as ``Enqueued.heads``, with what must have been there unrecorded


def queues(span: Span, rows: Enqueued) -> Queues:
    """Learn the ends of queues from how many calls were outstanding at most, and who waited."""
    found = [_outstanding(rows, stream) for stream in range(len(rows.streams))]
    capacity = tuple(_plateau(counts) for _, counts in found)
    length = rows.end - rows.begin
    api = span.joined.threads.trace.events.name[rows.call].astype(np.int64)
    usual = imputed(length, rows.first & ~rows.blocks, api)
    unknown = unheard(span, rows)
    long = (length > _LONG) & (length > _TIMES_USUAL * usual) & rows.first & ~rows.blocks
    blocked, heads = np.zeros(len(rows), bool), list(rows.heads)
    for stream, ((mine, counts), places) in enumerate(zip(found, capacity, strict=True)):
        over = unknown.get(stream, NEVER)
        early = rows.begin[mine] < over
        blocked[mine] = long[mine] & (early | (counts >= places - _NEAR))
        if over > NEVER:
            freed = np.minimum(rows.end - usual, over)[mine[early]]
            heads[stream] = _head(blocked[mine[early]], freed, places, over)
    return Queues(capacity, blocked, usual, tuple(heads))


def _head(blocked: Bool, freed: Int64, places: int, over: int) -> Int64:
    """Reckon what was in a queue unrecorded: each call that waited was let in by the end of one.

    ``freed``: when each early call had its place; ``over``: when the first of them began to run.
    """
    if not blocked.any():
        return np.array([over], np.int64)
    first = int(blocked.argmax())
    count = max(places - first, 1)
    let = freed[first:][:count]
    return np.sort(np.append(let, np.full(count - len(let), over)))


def _outstanding(rows: Enqueued, stream: int) -> tuple[Int64, Int64]:
    """Give the first activities of calls on a stream, and what was outstanding at each call."""
    on = rows.on[stream]
    mine = on[rows.first[on]]
    heads = rows.heads[stream]
    before = np.concatenate((heads, rows.stopped[mine]))
    enqueued = len(heads) + np.arange(len(mine))
    done = np.searchsorted(np.sort(before), rows.begin[mine], side="right")
    return mine, enqueued - done


def _plateau(counts: Int64) -> int:
    """Give the most that was outstanding, if that was often so; else what is known of devices."""
    most = int(counts.max(initial=0))
    steady = int((counts >= most - _STEADY).sum()) >= _TIMES
    return most if most >= _FULL and steady else PLACES
