"""Which activities a span launched, in which order, and what was on their streams before."""

from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.device.activities import D2H, Activities
from gapless.accounting.device.devices import activity_leaves
from gapless.model.trace import Int64
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.span import GraphSpan

NEVER: Final = -(1 << 62)
# ns: from the end of what was waited for to the start; 8,000 is too short
MAX_WAIT_GAP: Final = 30_000
# ns: a first activity on a stream that is later was not the first
_MIN_UNRECORDED_NS: Final = 1_000_000


class EnqueuedWork(Struct, frozen=True, dict=True):
    """The activities that a span launched, in the order of their launches; one a row."""

    acts: Activities  # of the whole trace
    act_rows: Int64  # → acts
    stream: Int64  # → streams
    streams: tuple[tuple[int, int], ...]  # (device, stream)
    thread: Int64  # that launched it
    call: Int64  # event
    begin: Int64  # of the call
    end: Int64
    is_first: Bool  # of its call
    follows: Bool  # its launch is not recorded: it came with its predecessor on the stream
    blocks: Bool  # a copy that its call waits for
    previous_end: Int64  # the latest end of what was on its stream before it, NEVER
    previous: Int64  # → acts: what was there last, −1
    heads: tuple[Int64, ...]  # of each stream: ends of what was enqueued before the span, ascending

    def __len__(self) -> int:
        """Count the activities."""
        return len(self.act_rows)

    @property
    def start(self) -> Int64:
        """Return when each began."""
        return self.acts.start[self.act_rows]

    @property
    def finish_ns(self) -> Int64:
        """Return when each ended."""
        return self.acts.end[self.act_rows]

    @property
    def event(self) -> Int64:
        """Return the event of each."""
        return self.acts.event[self.act_rows]

    @cached_property
    def stream_rows(self) -> tuple[Int64, ...]:
        """Return the rows of each stream, in the order of their launches."""
        return tuple(np.flatnonzero(self.stream == index) for index in range(len(self.streams)))

    def last_enqueued(self, stream: int, instants: Int64) -> Int64:
        """Return the row that was enqueued last on a stream before each instant, −1."""
        rows = self.stream_rows[stream]
        position = np.searchsorted(self.begin[rows], instants) - 1
        return (
            np.where(position >= 0, rows[np.maximum(position, 0)], -1)
            if len(rows)
            else position * 0 - 1
        )

    def drain_ends(self, stream: int, instants: Int64) -> Int64:
        """Return the latest end of what was enqueued on a stream before each instant, NEVER."""
        rows, heads = self.stream_rows[stream], self.heads[stream]
        backlog_end = int(heads[-1]) if len(heads) else NEVER
        reach = np.maximum.accumulate(np.append(backlog_end, self.finish_ns[rows]))
        return reach[np.searchsorted(self.begin[rows], instants)]


def collect_enqueued(span: GraphSpan) -> EnqueuedWork:
    """Collect what a span launched, and what was still to be done when it began.

    An activity without a recorded launch belongs to the work before the span where nothing that
    the span launched came before it on its stream; else it follows its predecessor there.
    """
    acts = span.joined_trace.activities
    pairs, stream = np.unique(
        np.stack([acts.device, acts.stream], axis=1), axis=0, return_inverse=True
    )
    stream = stream.reshape(-1).astype(np.int64)
    order = np.lexsort((acts.start, stream))
    has_call = acts.call >= 0
    is_launched = has_call & (acts.call_start >= span.start) & (acts.call_start < span.stop)
    leader = _find_leaders(order, stream, is_launched)
    follows = ~has_call & (leader >= 0) & (acts.start < span.stop)
    later = _find_leaders(order[::-1], stream, is_launched)
    is_early = (has_call & (acts.call_start < span.start)) | (
        ~has_call & (leader < 0) & (later >= 0)
    )
    previous_end, previous = _find_previous(order, stream, acts)
    source = np.where(follows, leader, np.arange(len(acts)))
    rows = np.flatnonzero(is_launched | follows)
    rows = rows[np.lexsort((acts.start[rows], acts.call_start[source[rows]]))]
    call, follows_row = acts.call[source[rows]], follows[rows]
    return EnqueuedWork(
        acts=acts,
        act_rows=rows,
        stream=stream[rows],
        streams=tuple((int(device), int(number)) for device, number in pairs),
        thread=acts.thread[source[rows]],
        call=call,
        begin=acts.call_start[source[rows]],
        end=acts.call_end[source[rows]],
        is_first=_is_first_of_call(call, follows_row),
        follows=follows_row,
        blocks=_is_blocking(span, rows) & ~follows_row,
        previous_end=previous_end[rows],
        previous=previous[rows],
        heads=tuple(np.sort(acts.end[is_early & (stream == index)]) for index in range(len(pairs))),
    )


def _find_leaders(order: Int64, stream: Int64, is_launched: Bool) -> Int64:
    """Return for each activity the span's last one on its stream up to it (itself, too); −1."""
    position = np.maximum.accumulate(np.where(is_launched[order], np.arange(len(order)), -1))
    candidate = np.where(position >= 0, order[np.maximum(position, 0)], -1)
    is_same = (candidate >= 0) & (stream[candidate] == stream[order])
    leader = np.full(len(order), -1)
    leader[order] = np.where(is_same, candidate, -1)
    return leader


def _find_previous(order: Int64, stream: Int64, acts: Activities) -> tuple[Int64, Int64]:
    """Return for each activity the latest end on its stream before it, and what was there last."""
    previous_end, previous = np.full(len(order), NEVER), np.full(len(order), -1)
    cuts = np.flatnonzero(np.diff(stream[order])) + 1
    for rows in np.split(order, cuts):
        previous_end[rows[1:]] = np.maximum.accumulate(acts.end[rows])[:-1]
        previous[rows[1:]] = rows[:-1]
    return previous_end, previous


def _is_first_of_call(call: Int64, follows: Bool) -> Bool:
    is_first = np.zeros(len(call), bool)
    leading = np.flatnonzero(~follows)
    is_first[leading[np.unique(call[leading], return_index=True)[1]]] = True
    return is_first


def _is_blocking(span: GraphSpan, rows: Int64) -> Bool:
    """Return which copies their calls wait for: seen to wait, or of a kind that always does."""
    acts, trace = span.joined_trace.activities, span.joined_trace.threads.trace
    pageable = np.array(["Pageable" in name for name in trace.names], bool)
    names = trace.events.name[acts.event[rows]]
    always_blocks = (
        (acts.kind[rows] == D2H) & pageable[names] & (acts.call_end[rows] >= acts.end[rows])
    )
    return (acts.blocking[rows] > 0) | always_blocks


def find_unrecorded(span: GraphSpan, rows: EnqueuedWork) -> dict[int, int]:
    """Return the streams whose work before the span is not recorded, and when it was over.

    A profiler that starts while devices are at work records nothing of what they have in hand: the
    first activity of a stream then comes long after its launch.
    """
    starts = dict[int, int]()
    for stream, stream_rows in enumerate(rows.stream_rows):
        first_row = stream_rows[:1]
        is_candidate = (rows.previous[first_row] < 0) & (rows.begin[first_row] < span.bounds[1])
        for row in first_row[
            is_candidate & (rows.start[first_row] - rows.end[first_row] > _MIN_UNRECORDED_NS)
        ].tolist():
            start = int(rows.start[row])
            ends = rows.finish_ns[:row][rows.stream[:row] != stream]
            if not (
                (ends <= start) & (ends >= start - MAX_WAIT_GAP)
            ).any():  # nor did it wait for another
                starts[stream] = start
    return starts


def busy_leaves(span: GraphSpan, rows: Int64) -> Int64:
    """Return the leaf of some activities."""
    joined_trace = span.joined_trace
    return activity_leaves(
        joined_trace.activities,
        joined_trace.activity_facets["class"],
        joined_trace.threads.trace,
        rows,
    )
