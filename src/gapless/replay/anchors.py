"""Anchors: the points at which threads, streams and the loader wait for one another."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.accounting.tags import DATA
from gapless.model import category
from gapless.model.trace import Int64
from gapless.replay.capacity import Queues
from gapless.replay.nodes import Op
from gapless.replay.span import Span
from gapless.replay.works import Enqueued

# Of anchors that begin together, what comes first.
_RANK: Final = {
    Op.STEP: 0,
    Op.EMIT: 1,
    Op.WAIT: 2,
    Op.ASK: 3,
    Op.DATA: 3,
    Op.LAUNCH: 4,
    Op.COPY: 4,
    Op.SYNC: 4,
    Op.EVENT: 4,
}
_KINDS: Final = np.array([_RANK[op] for op in Op], np.int64)
_LAST: Final = 9  # a further activity of a call that has just returned


@dataclass(frozen=True)
class Anchors:
    """Anchors of any threads; ``end`` is when it was over, ``own`` its own cost."""

    track: Int64
    op: Int64
    arg: Int64
    event: Int64
    begin: Int64
    end: Int64
    own: Int64

    def __len__(self) -> int:
        """Count them."""
        return len(self.op)

    def take(self, rows: Int64 | npt.NDArray[np.bool_]) -> "Anchors":
        """Select anchors."""
        return Anchors(**{name: column[rows] for name, column in vars(self).items()})


def anchors(columns: list[tuple[int, ...]]) -> Anchors:
    """Make anchors of rows (track, op, arg, event, begin, end, own)."""
    every = np.array(columns, np.int64).reshape(-1, 7)
    return Anchors(*(every[:, at].copy() for at in range(7)))


def stacked(parts: list[Anchors]) -> Anchors:
    """Put anchors together as they come."""
    names = tuple(vars(parts[0]))
    return Anchors(**{name: np.concatenate([vars(one)[name] for one in parts]) for name in names})


def launches(rows: Enqueued, queues: Queues) -> Anchors:
    """Give an anchor for each activity: the first of a call bears its cost."""
    blocks = rows.blocks
    length = np.where(rows.first, rows.end - rows.begin, 0)
    own = np.where(queues.blocked, np.minimum(queues.usual, length), length)
    # A copy ends a little after the call where the host has only to stage it.
    after = rows.end - rows.stopped
    return Anchors(
        track=rows.thread,
        op=np.where(blocks, Op.COPY, Op.LAUNCH).astype(np.int64),
        arg=np.arange(len(rows)),
        event=np.where(rows.follows, -1, rows.call),
        begin=np.where(rows.first, rows.begin, rows.end),
        end=rows.end,
        own=np.where(blocks, after, own),
    )


def steps(span: Span) -> Anchors:
    """Give an anchor for the end of each step."""
    ends = span.bounds[1:]
    main = span.joined.threads.main
    return anchors([(main, Op.STEP, at, -1, end, end, 0) for at, end in enumerate(ends.tolist())])


def batches(span: Span) -> Anchors:
    """Give anchors for each batch that the training thread asked for and got.

    A wait that the span cuts is none.
    """
    threads = span.joined.threads
    events, mine = threads.trace.events, threads.of(threads.main)
    asks = mine[threads.tags.order[mine] == DATA]
    asks = asks[events.category[asks] != category.MARKER]  # gapless:iter is not a batch
    start, end = events.start[asks], events.end[asks]
    inside = (start >= span.start) & (end <= span.stop)
    asks, start, end = asks[inside], start[inside], end[inside]
    order = np.lexsort((-end, start))
    asks, start, end = asks[order], start[order], end[order]
    reach = np.maximum.accumulate(np.append(span.start, end))[:-1]
    outer = start >= reach
    found = list[tuple[int, ...]]()
    for ask, lo, hi in zip(*(c[outer].tolist() for c in (asks, start, end)), strict=True):
        found.append((threads.main, Op.ASK, -1, ask, lo, lo, 0))
        found.append((threads.main, Op.DATA, -1, ask, hi, hi, 0))
    return anchors(found)


def in_order(every: Anchors, track: int, span: Span) -> Anchors:
    """Give the anchors of a thread, one after another: what began inside another begins after it.

    A synchronisation inside another call is that call's own.
    """
    mine = every.take(every.track == track)
    late = (mine.begin == mine.end) & (mine.op == Op.LAUNCH)
    rank = np.where(late, _LAST, _KINDS[mine.op])
    mine = mine.take(np.lexsort((mine.arg, rank, mine.begin)))
    before = np.maximum.accumulate(np.append(span.start, mine.end))[:-1]
    inner = np.isin(mine.op, (Op.SYNC, Op.EVENT)) & (mine.end <= before) & (mine.begin < before)
    mine = mine.take(~inner)
    reach = np.maximum.accumulate(np.append(span.start, mine.end))
    begin = np.maximum(mine.begin, reach[:-1])
    shorter = begin - mine.begin
    launched = mine.op == Op.LAUNCH
    return Anchors(
        track=mine.track,
        op=mine.op,
        arg=mine.arg,
        event=mine.event,
        begin=begin,
        end=reach[1:],
        own=np.where(launched, np.maximum(mine.own - shorter, 0), mine.own),
    )
