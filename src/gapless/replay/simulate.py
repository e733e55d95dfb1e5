"""A graph played: when each anchor, activity and step of it would be.

Each thread has a clock; whoever's next anchor comes first goes on, until that of another comes
before. Activities start when their launch has reached their stream, their stream is free and what
they wait for has ended. A synchronisation waits for what is enqueued when it is called, not for
what it waited for in the trace (as in Lumos, MLSys 2025). All times are integer nanoseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from gapless.model.leaf import LEAVES
from gapless.model.trace import Int8, Int64
from gapless.replay.nodes import Graph, Op, Played, Thread
from gapless.replay.queue import Source

_EVER: Final = -(1 << 62)
_WAITS: Final = np.array([leaf.startswith(("idle.data", "comm.", "idle.comm.")) for leaf in LEAVES])
NO_SOURCES: Final[Mapping[int, Source]] = {}


class StuckError(Exception):
    """A graph cannot be played to its end: threads wait for hand-offs that never come."""


def simulate(
    graph: Graph, alpha: float = 0.0, sources: Mapping[int, Source] = NO_SOURCES
) -> Played:
    """Play a graph.

    ``alpha``: ns that each traced host event cost, and is taken off. ``sources``: the loaders that
    are asked, by id, instead of the waits that were recorded; −1 stands for any. Raises
    ``StuckError`` where threads would wait for ever.
    """
    lanes = [_lane(thread, alpha, sources, graph.pace) for thread in graph.threads]
    play = _play(graph, lanes, sources)
    for who, lane in enumerate(lanes):
        if lane.ops:
            play.heap.append((graph.start + lane.segments[0], who))
    heapify(play.heap)
    while play.heap:
        now, who = heappop(play.heap)
        play.advance(lanes[who], now, who)
    waiting = [lane for lane in lanes if lane.at < len(lane.ops)]
    if waiting:
        raise StuckError(f"{len(waiting)} of {len(lanes)} threads wait for ever")
    return Played(
        steps=np.array(play.steps, np.int64),
        start=np.array(play.starts, np.int64),
        end=np.array(play.ends, np.int64),
        threads=tuple(np.array(lane.end, np.int64) for lane in lanes),
        begun=tuple(np.array(lane.begin, np.int64) for lane in lanes),
    )


@dataclass(slots=True)
class _Lane:
    """A thread in play; lists, for indexing columns of NumPy one by one is slow."""

    ops: list[int]
    args: list[int]
    segments: list[int]
    own: list[int]
    begin: list[int]
    end: list[int]
    at: int = 0


@dataclass(slots=True)
class _Play:
    """What a replay changes while it goes on."""

    lanes: list[_Lane]
    sources: Mapping[int, Source]
    on_device: bool
    stream: list[int]
    duration: list[int]
    lag: list[int]
    gap: list[int]
    near: list[int]
    late: list[int]
    hop: int
    slot: list[bool]  # it takes a place in the queue of its stream
    after: tuple[tuple[int, ...], ...]
    capacity: tuple[int, ...]
    free: list[int]  # of each stream: the end of what was enqueued last
    queued: list[list[int]]  # of each stream: the ends of what took a place in its queue
    starts: list[int]
    ends: list[int]
    steps: list[int]
    heap: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    told: dict[int, int] = field(default_factory=dict[int, int])  # hand-offs
    waiting: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    acts: tuple[Callable[[_Lane, int, int], int | None], ...] = ()

    def advance(self, lane: _Lane, now: int, who: int) -> None:
        """Let a thread go on until another one's turn comes, it waits or it ends."""
        acts = self.acts
        ops, begin, end, segments = lane.ops, lane.begin, lane.end, lane.segments
        at, count, heap = lane.at, len(lane.ops), self.heap
        while True:
            begin[at] = now
            done = acts[ops[at]](lane, at, now)
            if done is None:
                lane.at = at
                self.waiting.setdefault(lane.args[at], []).append(who)
                return
            end[at] = done
            at += 1
            if at == count:
                lane.at = at
                return
            now = done + segments[at]
            if heap and heap[0][0] < now:
                lane.at = at
                heappush(heap, (now, who))
                return

    def __post_init__(self) -> None:
        """Look up once what each ``Op`` does."""
        first = (self.launch, self.sync, self.copy, self.emit, self.wait)
        self.acts = (*first, self.step, self.data, self.ask, self.event)

    def launch(self, lane: _Lane, at: int, now: int) -> int:
        """Enqueue an activity once the queue has room; the thread goes on."""
        job = lane.args[at]
        if self.slot[job]:
            queue = self.queued[self.stream[job]]
            over = len(queue) - self.capacity[self.stream[job]]
            if over >= 0 and queue[over] > now:
                now = queue[over]
        now += lane.own[at]
        self.enqueue(job, now)
        return now

    def copy(self, lane: _Lane, at: int, now: int) -> int:
        """Enqueue a copy and wait for its end."""
        job = lane.args[at]
        self.enqueue(job, now)
        return self.ends[job] + lane.own[at]

    def enqueue(self, job: int, now: int) -> None:
        """Put an activity on its stream: what it waits for is known by now, or never was."""
        stream = self.stream[job]
        there, free = now + self.lag[job], self.free[stream]
        start = free + self.gap[job] if free > there else max(there, free + self.near[job])
        for other in self.after[job]:
            start = max(start, self.ends[other] + self.hop)
        start += self.late[job]
        end = start + self.duration[job]
        self.starts[job] = start
        self.ends[job] = self.free[stream] = end
        if self.slot[job]:
            self.queued[stream].append(end)

    def sync(self, lane: _Lane, at: int, now: int) -> int:
        """Wait for what is enqueued by now on a stream, or on all."""
        which = lane.args[at]
        until = self.free[which] if which >= 0 else max(self.free, default=now)
        return max(now, until) + lane.own[at]

    def emit(self, lane: _Lane, at: int, now: int) -> int:
        """Hand something over: who waits for it goes on."""
        said = lane.args[at]
        now += lane.own[at]
        self.told[said] = now
        for who in self.waiting.pop(said, ()):
            other = self.lanes[who]
            here = other.at
            done = other.end[here] = max(other.begin[here], now) + other.own[here]
            other.at = here + 1
            if other.at < len(other.ops):
                heappush(self.heap, (done + other.segments[other.at], who))
        return now

    def wait(self, lane: _Lane, at: int, now: int) -> int | None:
        """Wait for a hand-off; ``None``: it has not come."""
        said = self.told.get(lane.args[at])
        return None if said is None else max(now, said) + lane.own[at]

    def step(self, lane: _Lane, at: int, now: int) -> int:
        """End a step: on a device, when it has drained what was launched by now."""
        now += lane.own[at]
        number = lane.args[at]
        until = max(self.free, default=now) if self.on_device else now
        before = self.steps[number - 1] if number else now
        self.steps[number] = max(now, until, before)
        return now

    def data(self, lane: _Lane, at: int, now: int) -> int:
        """Take a batch: from its source, else as recorded (the wait is the segment)."""
        source = sourced(self.sources, lane.args[at])
        got = now if source is None else source.got(now)
        return max(now, got) + lane.own[at]

    def ask(self, lane: _Lane, at: int, now: int) -> int:
        """Ask for a batch: from here on its wait is played, not what was recorded."""
        return now + lane.own[at]

    def event(self, lane: _Lane, at: int, now: int) -> int:
        """Wait for one activity."""
        which = lane.args[at]
        return max(now, self.ends[which] if which >= 0 else now) + lane.own[at]


def sourced(sources: Mapping[int, Source], loader: int) -> Source | None:
    """Give the source of a loader; of an unknown one, that which stands for any or is alone."""
    found = sources.get(loader, sources.get(-1))
    alone = loader < 0 and len(sources) == 1
    return next(iter(sources.values())) if found is None and alone else found


def _play(graph: Graph, lanes: list[_Lane], sources: Mapping[int, Source]) -> _Play:
    work = graph.work
    count = len(work.stream)
    heads: Sequence[Int64] = graph.heads or [np.empty(0, np.int64) for _ in graph.streams]
    return _Play(
        lanes=lanes,
        sources=sources,
        on_device=graph.on_device,
        stream=work.stream.tolist(),
        duration=work.duration.tolist(),
        lag=work.lag.tolist(),
        gap=work.gap.tolist(),
        near=work.near.tolist(),
        late=filled(work.late, count).tolist(),
        hop=work.hop,
        slot=filled(work.slot, count, 1).tolist(),
        after=work.after,
        capacity=graph.capacity,
        free=[_EVER if end < 0 else end for end in graph.begun.tolist()],
        queued=[head.tolist() for head in heads],
        starts=[-1] * count,
        ends=[-1] * count,
        steps=[graph.start] * len(graph.steps),
    )


def filled(column: Int64 | Int8, count: int, value: int = 0) -> Int64:
    """Give a column as it is, or where it was left out, one value throughout."""
    return column.astype(np.int64) if len(column) else np.full(count, value, np.int64)


def _lane(thread: Thread, alpha: float, sources: Mapping[int, Source], pace: float) -> _Lane:
    segments, own = costs(thread, alpha, sources, pace)
    count = len(thread.ops)
    return _Lane(
        ops=thread.ops.tolist(),
        args=thread.args.tolist(),
        segments=segments.tolist(),
        own=own.tolist(),
        begin=[0] * count,
        end=[0] * count,
    )


def costs(
    thread: Thread, alpha: float, sources: Mapping[int, Source] = NO_SOURCES, pace: float = 1.0
) -> tuple[Int64, Int64]:
    """Give the time of each segment and each anchor's own, less what tracing cost, in ns.

    Where a source is asked, the recorded wait for it is left out. What tracing cost more than the
    segment took comes off the anchor's own time; stalls stay as they are. ``pace``: of the host.
    """
    left = thread.amounts.sum(axis=1) - np.rint(alpha * thread.counts).astype(np.int64)
    segment = np.maximum(left, 0)
    own = thread.own - np.minimum(np.maximum(-left, 0), np.maximum(thread.own, 0))
    if pace != 1:
        waits = _WAITS if thread.amounts.shape[1] == len(LEAVES) else slice(0)  # else: not parted
        waited = np.minimum(thread.amounts[:, waits].sum(axis=1), segment)
        segment = waited + np.rint((segment - waited) / pace).astype(np.int64)
        own = np.rint(own / pace).astype(np.int64)
    segment = segment + filled(thread.stall, len(left))
    if sources:
        waits = _waits(thread, sources)
        segment[waits] = own[waits] = 0
    return segment, own


def _waits(thread: Thread, sources: Mapping[int, Source]) -> Int64:
    """Give the anchors between an ask and its hand-over, of loaders that a source stands for.

    Without an ask it is the hand-over alone.
    """
    out: list[int] = []
    asked = None
    marks = np.flatnonzero((thread.ops == Op.DATA) | (thread.ops == Op.ASK))
    for at, op, loader in zip(
        marks.tolist(), thread.ops[marks].tolist(), thread.args[marks].tolist(), strict=True
    ):
        if op == Op.ASK:
            asked = at
        elif sourced(sources, loader) is not None:
            out += range(at if asked is None else asked + 1, at + 1)
            asked = None
    return np.array(out, np.int64)
