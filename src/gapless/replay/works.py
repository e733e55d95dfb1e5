"""Which activities a span launched, in which order, and what was on their streams before."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from gapless.accounting.activities import D2H, Activities
from gapless.accounting.devices import leaves
from gapless.model.trace import Int64
from gapless.replay.span import Span
from gapless.replay.typical import Bool

NEVER: Final = -(1 << 62)
NEAR: Final = 30_000  # ns: from the end of what was waited for to the start; 8,000 is too short
_WAITED: Final = 1_000_000  # ns: what comes first on a stream and is later was not the first


@dataclass(frozen=True)
class Enqueued:
    """The activities that a span launched, in the order of their launches; one a row."""

    acts: Activities  # of the whole trace
    at: Int64  # → acts
    stream: Int64  # → streams
    streams: tuple[tuple[int, int], ...]  # (device, stream)
    thread: Int64  # that launched it
    call: Int64  # event
    begin: Int64  # of the call
    end: Int64
    first: Bool  # of its call
    follows: Bool  # its launch is not recorded: it came with what was before it on its stream
    blocks: Bool  # a copy that its call waits for
    before: Int64  # the latest end of what was on its stream before it, NEVER
    previous: Int64  # → acts: what was there last, −1
    heads: tuple[Int64, ...]  # of each stream: ends of what was enqueued before the span, ascending

    def __len__(self) -> int:
        """Count the activities."""
        return len(self.at)

    @property
    def start(self) -> Int64:
        """Give when each began."""
        return self.acts.start[self.at]

    @property
    def stopped(self) -> Int64:
        """Give when each ended."""
        return self.acts.end[self.at]

    @property
    def event(self) -> Int64:
        """Give the event of each."""
        return self.acts.event[self.at]

    @cached_property
    def on(self) -> tuple[Int64, ...]:
        """Give the rows of each stream, in the order of their launches."""
        return tuple(np.flatnonzero(self.stream == at) for at in range(len(self.streams)))

    def last_enqueued(self, stream: int, at: Int64) -> Int64:
        """Give the row that was enqueued last on a stream before each instant, −1."""
        rows = self.on[stream]
        found = np.searchsorted(self.begin[rows], at) - 1
        return np.where(found >= 0, rows[np.maximum(found, 0)], -1) if len(rows) else found * 0 - 1

    def drained(self, stream: int, at: Int64) -> Int64:
        """Give the latest end of what was enqueued on a stream before each instant, NEVER."""
        rows, heads = self.on[stream], self.heads[stream]
        first = int(heads[-1]) if len(heads) else NEVER
        reach = np.maximum.accumulate(np.append(first, self.stopped[rows]))
        return reach[np.searchsorted(self.begin[rows], at)]


def enqueued(span: Span) -> Enqueued:
    """Collect what a span launched, and what was still to be done when it began.

    An activity without a recorded launch belongs to the work before the span where nothing that
    the span launched came before it on its stream; else it follows its predecessor there.
    """
    acts = span.joined.activities
    pairs, stream = np.unique(
        np.stack([acts.device, acts.stream], axis=1), axis=0, return_inverse=True
    )
    stream = stream.reshape(-1).astype(np.int64)
    order = np.lexsort((acts.start, stream))
    has = acts.call >= 0
    mine = has & (acts.call_start >= span.start) & (acts.call_start < span.stop)
    leader = _leaders(order, stream, mine)
    follows = ~has & (leader >= 0) & (acts.start < span.stop)
    later = _leaders(order[::-1], stream, mine)
    early = (has & (acts.call_start < span.start)) | (~has & (leader < 0) & (later >= 0))
    before, previous = _before(order, stream, acts)
    source = np.where(follows, leader, np.arange(len(acts)))
    rows = np.flatnonzero(mine | follows)
    rows = rows[np.lexsort((acts.start[rows], acts.call_start[source[rows]]))]
    call, follow = acts.call[source[rows]], follows[rows]
    return Enqueued(
        acts=acts,
        at=rows,
        stream=stream[rows],
        streams=tuple((int(device), int(number)) for device, number in pairs),
        thread=acts.thread[source[rows]],
        call=call,
        begin=acts.call_start[source[rows]],
        end=acts.call_end[source[rows]],
        first=_first(call, follow),
        follows=follow,
        blocks=_blocks(span, rows) & ~follow,
        before=before[rows],
        previous=previous[rows],
        heads=tuple(np.sort(acts.end[early & (stream == at)]) for at in range(len(pairs))),
    )


def _leaders(order: Int64, stream: Int64, mine: Bool) -> Int64:
    """Give for each activity the last one of the span's before it on its stream, itself too; −1."""
    place = np.maximum.accumulate(np.where(mine[order], np.arange(len(order)), -1))
    found = np.where(place >= 0, order[np.maximum(place, 0)], -1)
    same = (found >= 0) & (stream[found] == stream[order])
    leader = np.full(len(order), -1)
    leader[order] = np.where(same, found, -1)
    return leader


def _before(order: Int64, stream: Int64, acts: Activities) -> tuple[Int64, Int64]:
    """Give for each activity the latest end on its stream before it, and what was there last."""
    before, previous = np.full(len(order), NEVER), np.full(len(order), -1)
    cuts = np.flatnonzero(np.diff(stream[order])) + 1
    for rows in np.split(order, cuts):
        before[rows[1:]] = np.maximum.accumulate(acts.end[rows])[:-1]
        previous[rows[1:]] = rows[:-1]
    return before, previous


def _first(call: Int64, follows: Bool) -> Bool:
    first = np.zeros(len(call), bool)
    own = np.flatnonzero(~follows)
    first[own[np.unique(call[own], return_index=True)[1]]] = True
    return first


def _blocks(span: Span, rows: Int64) -> Bool:
    """Tell which copies their calls wait for: seen to, or of a kind that always does."""
    acts, trace = span.joined.activities, span.joined.threads.trace
    pageable = np.array(["Pageable" in name for name in trace.names], bool)
    names = trace.events.name[acts.event[rows]]
    always = (acts.kind[rows] == D2H) & pageable[names] & (acts.call_end[rows] >= acts.end[rows])
    return (acts.blocking[rows] > 0) | always


def unheard(span: Span, rows: Enqueued) -> dict[int, int]:
    """Give the streams whose work before the span is not recorded, and when it was over.

    A profiler that starts while devices are at work records nothing of what they have in hand: the
    first activity of a stream then comes long after its launch.
    """
    found = dict[int, int]()
    for stream, mine in enumerate(rows.on):
        first = mine[:1]
        alone = (rows.previous[first] < 0) & (rows.begin[first] < span.bounds[1])
        for row in first[alone & (rows.start[first] - rows.end[first] > _WAITED)].tolist():
            start = int(rows.start[row])
            ends = rows.stopped[:row][rows.stream[:row] != stream]
            if not ((ends <= start) & (ends >= start - NEAR)).any():  # nor did it wait for another
                found[stream] = start
    return found


def busy_leaves(span: Span, rows: Int64) -> Int64:
    """Give the leaf of some activities."""
    joined = span.joined
    return leaves(joined.activities, joined.known["class"], joined.threads.trace, rows)
