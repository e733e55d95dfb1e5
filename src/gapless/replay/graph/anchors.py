"""Anchors: the points at which threads, streams and the loader wait for one another."""

from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from gapless.accounting.host.tags import DATA
from gapless.model import category
from gapless.model.trace import Int64
from gapless.replay.graph.launch_order import EnqueuedWork
from gapless.replay.graph.nodes import Op
from gapless.replay.graph.queue_capacity import Queues
from gapless.replay.graph.span import GraphSpan

# The order of anchors that begin together.
_RANK: Final = {
    Op.STEP: 0,
    Op.EMIT: 1,
    Op.WAIT: 2,
    Op.ASK: 3,
    Op.DATA: 3,
    Op.LAUNCH: 4,
    Op.COPY: 4,
    Op.SYNC: 4,
    Op.EVENT: 10,  # of what was launched at that moment, too
}
_KINDS: Final = np.array([_RANK[op] for op in Op], np.int64)
_LAST_RANK: Final = 9  # a further activity of a call that has just returned


class Anchors(Struct, frozen=True):
    """Anchors of any threads; ``end`` is when each was over, ``own_ns`` its own cost."""

    track: Int64
    op: Int64
    arg: Int64
    event: Int64
    begin: Int64
    end: Int64
    own_ns: Int64

    def __len__(self) -> int:
        """Count the anchors."""
        return len(self.op)

    def take(self, rows: Int64 | npt.NDArray[np.bool_]) -> "Anchors":
        """Select anchors."""
        return Anchors(**{name: column[rows] for name, column in asdict(self).items()})


def make_anchors(rows: list[tuple[int, ...]]) -> Anchors:
    """Make anchors of rows (track, op, arg, event, begin, end, own)."""
    table = np.array(rows, np.int64).reshape(-1, 7)
    return Anchors(*(table[:, index].copy() for index in range(7)))


def stack_anchors(groups: list[Anchors]) -> Anchors:
    """Concatenate anchors in the given order."""
    names = tuple(asdict(groups[0]))
    return Anchors(
        **{name: np.concatenate([asdict(group)[name] for group in groups]) for name in names}
    )


def launch_anchors(rows: EnqueuedWork, queues: Queues) -> Anchors:
    """Return an anchor for each activity: the first of a call bears its cost."""
    blocks = rows.blocks
    length = np.where(rows.is_first, rows.end - rows.begin, 0)
    own_ns = np.where(queues.is_blocked, np.minimum(queues.usual, length), length)
    # A copy ends a little after the call where the host has only to stage it.
    tail_ns = rows.end - rows.finish_ns
    return Anchors(
        track=rows.thread,
        op=np.where(blocks, Op.COPY, Op.LAUNCH).astype(np.int64),
        arg=np.arange(len(rows)),
        event=np.where(rows.follows, -1, rows.call),
        begin=np.where(rows.is_first, rows.begin, rows.end),
        end=rows.end,
        own_ns=np.where(blocks, tail_ns, own_ns),
    )


def step_anchors(span: GraphSpan) -> Anchors:
    """Return an anchor for the end of each step."""
    ends = span.bounds[1:]
    main = span.joined_trace.threads.main
    return make_anchors(
        [(main, Op.STEP, index, -1, end, end, 0) for index, end in enumerate(ends.tolist())]
    )


def batch_anchors(span: GraphSpan) -> Anchors:
    """Return anchors for each batch that the training thread requested and got.

    A wait that the span cuts is ignored.
    """
    threads = span.joined_trace.threads
    events, frames = threads.trace.events, threads.frames_of(threads.main)
    asks = frames[threads.tags.order[frames] == DATA]
    asks = asks[events.category[asks] != category.MARKER]  # gapless:iter is not a batch
    start, end = events.start[asks], events.end[asks]
    is_inside = (start >= span.start) & (end <= span.stop)
    asks, start, end = asks[is_inside], start[is_inside], end[is_inside]
    order = np.lexsort((-end, start))
    asks, start, end = asks[order], start[order], end[order]
    reach = np.maximum.accumulate(np.append(span.start, end))[:-1]
    is_outer = start >= reach
    rows = list[tuple[int, ...]]()
    for ask, lo, hi in zip(
        *(column[is_outer].tolist() for column in (asks, start, end)), strict=True
    ):
        rows.append((threads.main, Op.ASK, -1, ask, lo, lo, 0))
        rows.append((threads.main, Op.DATA, -1, ask, hi, hi, 0))
    return make_anchors(rows)


def order_anchors(anchors: Anchors, track: int, span: GraphSpan) -> Anchors:
    """Return the anchors of a thread, one after another: what began inside another begins after it.

    A synchronisation inside another call is that call's own.
    """
    track_anchors = anchors.take(anchors.track == track)
    is_late = (track_anchors.begin == track_anchors.end) & (track_anchors.op == Op.LAUNCH)
    rank = np.where(is_late, _LAST_RANK, _KINDS[track_anchors.op])
    track_anchors = track_anchors.take(np.lexsort((track_anchors.arg, rank, track_anchors.begin)))
    before = np.maximum.accumulate(np.append(span.start, track_anchors.end))[:-1]
    is_inner = (
        np.isin(track_anchors.op, (Op.SYNC, Op.EVENT))
        & (track_anchors.end <= before)
        & (track_anchors.begin < before)
    )
    track_anchors = track_anchors.take(~is_inner)
    reach = np.maximum.accumulate(np.append(span.start, track_anchors.end))
    begin = np.maximum(track_anchors.begin, reach[:-1])
    overlap = begin - track_anchors.begin
    is_launch = track_anchors.op == Op.LAUNCH
    return Anchors(
        track=track_anchors.track,
        op=track_anchors.op,
        arg=track_anchors.arg,
        event=track_anchors.event,
        begin=begin,
        end=reach[1:],
        own_ns=np.where(
            is_launch, np.maximum(track_anchors.own_ns - overlap, 0), track_anchors.own_ns
        ),
    )
