"""The graph of a window: threads of anchors, activities of streams, and what orders them.

An anchor is a point at which threads, streams or the loader wait for one another: a launch, a
blocking copy, a sync, a hand-off between threads, the end of a step, a batch that is asked for. All
else that a thread does is merged into the segment before the next anchor, as nanoseconds by leaf
and a count of traced events. All times are nanoseconds; −1 in an index column means none.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from gapless.model.trace import Int8, Int32, Int64

Float = npt.NDArray[np.float64]


def _empty_column() -> Int64:
    return np.empty(0, np.int64)


def _empty_leaves() -> Int8:
    return np.empty(0, np.int8)


def _empty_meetings() -> Int32:
    return np.empty(0, np.int32)


class Op(IntEnum):
    """What an anchor does once its segment is over.

    A launch spends its own time, then enqueues: the lag counts from there. A blocking copy enqueues
    at once, and spends its own time when the copy has ended; a sync, when it need not wait.
    """

    LAUNCH = 0  # arg: the activity that it launches
    SYNC = 1  # arg: the stream that it waits for, −1: all; bound in replay to what is enqueued then
    COPY = 2  # arg: the activity that it launches and waits for (a blocking copy)
    EMIT = 3  # arg: the hand-off that other threads wait for
    WAIT = 4  # arg: the hand-off that it waits for
    STEP = 5  # arg: the number of the step that ends here
    DATA = 6  # arg: the loader's id, −1 unknown: the batch that was asked for is handed over
    ASK = 7  # arg: the loader's id: a batch is asked for; the segment up to its DATA is the wait
    EVENT = 8  # arg: the activity that the host waits for (an event after it); −1: no longer any


class GraphThread(Struct, frozen=True):
    """One host thread: an anchor a row, in order."""

    track: int
    ops: Int8  # → Op
    args: Int32
    amounts: Int64  # [anchors, len(LEAVES)]: host time of the segment before it, by leaf
    counts: Int64  # traced host events in the segment and the anchor's call; a launch counts twice
    own_ns: Int64  # the anchor's own cost besides waiting: the launch call, the return of a sync
    event: Int32  # of the trace: the anchor's call, −1
    step: Int32  # the step (row of ``Graph.steps``) that it lies in, −1 before the first
    begin: Int64 = field(default_factory=_empty_column)  # as observed: when its segment was over
    end: Int64 = field(
        default_factory=_empty_column
    )  # as observed: when it was, and the next began
    # Of the segment, besides ``amounts``: more than five times the median of its position (at least
    # 0.3 ms) that no leaf names. It stays as it is whatever is changed.
    stall: Int64 = field(default_factory=_empty_column)
    under: Int8 = field(
        default_factory=_empty_leaves
    )  # the host's leaf at ``begin``: what it is part of


class GraphWork(Struct, frozen=True):
    """The activities of all streams, in the order of their launches; one a row."""

    stream: Int32  # → Graph.streams
    duration: Int64
    lag: Int64  # from the end of its launch call to its start, where its stream was empty; imputed
    gap: Int64  # from the end of its predecessor to its start, where it was queued; imputed
    after: tuple[tuple[int, ...], ...]  # activities of other streams that must have ended before
    leaf: Int8  # → model.leaf.LEAVES
    event: Int32  # of the trace
    # What neither queue nor launch nor another stream explains of its start, added to it.
    late: Int64 = field(default_factory=_empty_column)
    # 1: a place in its stream's queue (of the kernels of a graph launch, the first alone has one).
    slot: Int8 = field(default_factory=_empty_leaves)
    hop: int = 0  # from the end of the last of ``after`` to the start
    # The collective that each is one rank's part of: it ends its duration after the last rank's
    # part has begun; −1: none.
    meeting: Int32 = field(default_factory=_empty_meetings)

    @property
    def near_gap(self) -> Int64:
        """Return the gap after a predecessor that is over when the activity reaches its stream."""
        return near_gaps(self.lag, self.gap, self.slot)


def near_gaps(lag: Int64, gap: Int64, slot: Int8) -> Int64:
    """Return gaps after predecessors that were over before: none is longer than the launch's lag.

    What waits in a queue for another engine is signalled to go on (a copy after a kernel: 8 µs on
    an H200); after what is over it starts as on an empty stream, 2 µs. What came with its
    predecessor, in one launch, always follows it by its gap.
    """
    near = np.minimum(np.maximum(lag, 0), gap)
    return np.where(slot > 0, near, gap) if len(slot) else near


class Refusal(Struct, frozen=True):
    """Why a window cannot be replayed; how far off it was unchanged, if that was measured.

    As shares of the step: ``imputed_error`` off the trace, ``unprofiled_error`` off the un-profiled
    step.
    """

    reason: str
    imputed_error: float | None = None
    unprofiled_error: float | None = None


class SimulatedSteps(Struct, frozen=True):
    """The result of a replay: when everything was over; lists correspond to the graph's columns."""

    steps: Int64  # as ``Graph.steps``: when the devices were through with what a step launched
    start: Int64  # of the activities, −1: never launched
    end: Int64
    threads: tuple[Int64, ...] = ()  # when each anchor of each thread was over
    segment_starts: tuple[Int64, ...] = ()  # when the segment before it was


class RankSpan(Struct, frozen=True):
    """What of a joint graph is one rank's: its threads and streams (from, up to), its start."""

    threads: tuple[int, int]
    streams: tuple[int, int]
    start: int


class Graph(Struct, frozen=True):
    """A window as it is simulated; of several ranks one graph (``joining.join_graphs``)."""

    threads: tuple[GraphThread, ...]  # the training thread first
    work: GraphWork
    streams: tuple[tuple[int, int], ...]  # (device, stream)
    capacity: tuple[int, ...]  # launch calls that may be outstanding on each stream
    backlog_ends: (
        Int64  # absolute end of what was enqueued on each stream before the window; −1 none
    )
    steps: Int64  # observed ends of the steps, on the device or (without one) on the thread
    on_device: bool
    start: int  # of the first segment
    unexplained: float  # share of a step in waits that no edge explains
    notes: tuple[str, ...] = ()
    heads: tuple[Int64, ...] = ()  # ends of what was enqueued on each stream before, ascending
    counted_steps: tuple[int, ...] = ()  # the regular steps: figures are of these
    is_aligned: bool = False  # the counted steps have the same anchors in the same order
    pace: float = 1.0  # the host took so many times as long in the window as otherwise
    ranks: tuple[RankSpan, ...] = ()  # of a joint graph

    @property
    def rank_spans(self) -> tuple[RankSpan, ...]:
        """Return what is each rank's: all of it where there is one."""
        rank_span = RankSpan((0, len(self.threads)), (0, len(self.streams)), self.start)
        return self.ranks or (rank_span,)

    @property
    def opening_ns(self) -> int:
        """Return when the first step begins: on a device, after what was enqueued before."""
        if not self.on_device:
            return self.start
        ends = [
            int(self.backlog_ends[slice(*span.streams)].max(initial=span.start))
            for span in self.rank_spans
        ]
        return sum(ends) // len(ends)
