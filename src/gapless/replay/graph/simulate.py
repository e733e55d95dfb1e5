"""Simulate a graph: when each of its anchors, activities and steps would be.

Each thread has a clock; the one whose next anchor comes first goes on, until that of another comes
before. Activities start when their launch has reached their stream, their stream is free and what
they wait for has ended. A synchronisation waits for what is enqueued when it is called, not for
what it waited for in the trace (as in Lumos, MLSys 2025). All times are integer nanoseconds.

Ranks meet in collectives alone. So each is simulated by itself up to the first collective that
another has not come to, and goes on once all have: its end is then known, whenever that is.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np
from msgspec import Struct, field

from gapless.model.trace import Int64
from gapless.replay.graph.nodes import Graph, GraphThread, RankSpan, SimulatedSteps
from gapless.replay.graph.thread_costs import (
    NO_SOURCES,
    fill_column,
    find_source,
    pace_work,
    thread_costs,
)
from gapless.replay.loader.queue import Source

_ALWAYS: Final = -(1 << 62)
_PAUSED: Final = -(1 << 61)  # in place of an end: another rank has not come to the collective


class StuckError(Exception):
    """A graph cannot be simulated to its end: threads wait for hand-offs that never come."""


def simulate(
    graph: Graph, alpha: float = 0.0, sources: Mapping[int, Source] = NO_SOURCES
) -> SimulatedSteps:
    """Simulate a graph.

    ``alpha``: ns that each traced host event cost, which are subtracted. ``sources``: the loaders
    that are asked, by id, instead of the waits that were recorded; −1 stands for any. Raises
    ``StuckError`` where threads would wait for ever.
    """
    states = _make_states(graph, alpha, sources)
    simulator = _make_simulator(graph, states, sources)
    for thread_index, state in enumerate(states):
        if state.ops:
            first_ns = graph.rank_spans[state.rank].start + state.segments[0]
            simulator.heaps[state.rank].append((first_ns, thread_index))
    simulator.run()
    stuck = [state for state in states if state.position < len(state.ops)]
    if stuck:
        raise StuckError(f"{len(stuck)} of {len(states)} threads wait for ever")
    return SimulatedSteps(
        steps=_mean_steps(simulator.steps),
        start=np.array(simulator.starts, np.int64),
        end=np.array(simulator.ends, np.int64),
        threads=tuple(np.array(state.end, np.int64) for state in states),
        segment_starts=tuple(np.array(state.begin, np.int64) for state in states),
    )


def _mean_steps(steps_by_rank: Sequence[Sequence[int]]) -> Int64:
    """Return when steps end on average over the ranks."""
    return np.array([sum(ends) // len(ends) for ends in zip(*steps_by_rank, strict=True)], np.int64)


class _ThreadState(Struct):
    """The state of a thread; lists, since indexing columns of NumPy one by one is slow."""

    ops: list[int]
    args: list[int]
    segments: list[int]
    own_ns: list[int]
    begin: list[int]
    end: list[int]
    rank: int
    streams: slice  # of its rank
    position: int = 0


class _Meeting(Struct):
    """A collective: how many ranks have not come to it, when the last began, who waits."""

    missing: int
    last_start: int = _ALWAYS
    paused_ranks: list[int] = field(default_factory=list[int])


class _Simulator(Struct):
    """The state of a running simulation."""

    states: list[_ThreadState]
    sources: Mapping[int, Source]
    on_device: bool
    stream: list[int]
    duration: list[int]
    lag: list[int]
    gap: list[int]
    near_gap: list[int]
    late: list[int]
    hop: int
    slot: list[bool]  # it takes a place in the queue of its stream
    after: tuple[tuple[int, ...], ...]
    capacity: tuple[int, ...]
    free: list[int]  # of each stream: the end of what was enqueued last
    queue_ends: list[list[int]]  # of each stream: the ends of what took a place in its queue
    starts: list[int]
    ends: list[int]
    steps: list[list[int]]  # of each rank
    heaps: list[list[tuple[int, int]]]  # of each rank
    meeting: list[int]
    meetings: dict[int, _Meeting]
    paused: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    runnable: list[int] = field(default_factory=list[int])  # ranks
    hand_off_ns: dict[int, int] = field(default_factory=dict[int, int])  # hand-offs
    waiting: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    actions: tuple[Callable[[_ThreadState, int, int], int | None], ...] = ()

    def run(self) -> None:
        """Simulate each rank as far as it comes without the others, in turns."""
        for heap in self.heaps:
            heapify(heap)
        self.runnable = list(range(len(self.heaps)))
        while self.runnable:
            rank = self.runnable.pop()
            heap = self.heaps[rank]
            if rank in self.paused:
                now, thread_index = self.paused.pop(rank)
                self.advance(self.states[thread_index], now, thread_index)
            while heap and rank not in self.paused:
                now, thread_index = heappop(heap)
                self.advance(self.states[thread_index], now, thread_index)

    def advance(self, state: _ThreadState, now: int, thread_index: int) -> None:
        """Advance a thread until another one's turn comes, it waits or it ends."""
        actions = self.actions
        ops, begin, end, segments = state.ops, state.begin, state.end, state.segments
        position, count, heap = state.position, len(state.ops), self.heaps[state.rank]
        while True:
            begin[position] = now
            end_ns = actions[ops[position]](state, position, now)
            if end_ns is None:
                state.position = position
                self.waiting.setdefault(state.args[position], []).append(thread_index)
                return
            if end_ns == _PAUSED:
                state.position = position
                self.paused[state.rank] = (now, thread_index)
                self.meetings[self.meeting[state.args[position]]].paused_ranks.append(state.rank)
                return
            end[position] = end_ns
            position += 1
            if position == count:
                state.position = position
                return
            now = end_ns + segments[position]
            if heap and heap[0][0] < now:
                state.position = position
                heappush(heap, (now, thread_index))
                return

    def __post_init__(self) -> None:
        """Look up the handler of each ``Op`` once."""
        thread_actions = (self.launch, self.sync, self.copy, self.emit, self.wait)
        self.actions = (*thread_actions, self.step, self.data, self.ask, self.event)

    def launch(self, state: _ThreadState, position: int, now: int) -> int:
        """Enqueue an activity once the queue has room; the thread goes on."""
        job = state.args[position]
        if self.slot[job]:
            queue = self.queue_ends[self.stream[job]]
            n_over = len(queue) - self.capacity[self.stream[job]]
            if n_over >= 0 and queue[n_over] > now:
                now = queue[n_over]
        now += state.own_ns[position]
        return now if self.enqueue(job, now) else _PAUSED

    def copy(self, state: _ThreadState, position: int, now: int) -> int:
        """Enqueue a copy and wait for its end."""
        job = state.args[position]
        if not self.enqueue(job, now):
            return _PAUSED
        return self.ends[job] + state.own_ns[position]

    def enqueue(self, job: int, now: int) -> bool:
        """Put an activity on its stream: what it waits for is known by now, or never will be.

        False: it is a collective that another rank has not come to.
        """
        stream = self.stream[job]
        arrival, free = now + self.lag[job], self.free[stream]
        start = free + self.gap[job] if free > arrival else max(arrival, free + self.near_gap[job])
        for earlier in self.after[job]:
            start = max(start, self.ends[earlier] + self.hop)
        start += self.late[job]
        end = start + self.duration[job]
        if self.meeting[job] >= 0:
            meeting = self.meetings[self.meeting[job]]
            if not self.meet(job, start, meeting):
                return False
            end = max(start, meeting.last_start) + self.duration[job]
        self.starts[job] = start
        self.ends[job] = self.free[stream] = end
        if self.slot[job]:
            self.queue_ends[stream].append(end)
        return True

    def meet(self, job: int, start: int, meeting: _Meeting) -> bool:
        """Note that a rank has come to a collective, and return whether all have."""
        if self.starts[job] < 0:
            self.starts[job] = start
            meeting.missing -= 1
            meeting.last_start = max(meeting.last_start, start)
            if not meeting.missing:
                self.runnable += meeting.paused_ranks
        return not meeting.missing

    def sync(self, state: _ThreadState, position: int, now: int) -> int:
        """Wait for what is enqueued by now on a stream, or on all."""
        target = state.args[position]
        until = self.free[target] if target >= 0 else self.drained_ns(state, now)
        return max(now, until) + state.own_ns[position]

    def emit(self, state: _ThreadState, position: int, now: int) -> int:
        """Hand something over: the thread that waits for it goes on."""
        hand_off = state.args[position]
        now += state.own_ns[position]
        self.hand_off_ns[hand_off] = now
        for waiter_index in self.waiting.pop(hand_off, ()):
            waiter = self.states[waiter_index]
            waiter_position = waiter.position
            end_ns = waiter.end[waiter_position] = (
                max(waiter.begin[waiter_position], now) + waiter.own_ns[waiter_position]
            )
            waiter.position = waiter_position + 1
            if waiter.position < len(waiter.ops):
                heap = self.heaps[waiter.rank]
                heappush(heap, (end_ns + waiter.segments[waiter.position], waiter_index))
        return now

    def wait(self, state: _ThreadState, position: int, now: int) -> int | None:
        """Wait for a hand-off; ``None``: it has not happened yet."""
        emit_ns = self.hand_off_ns.get(state.args[position])
        return None if emit_ns is None else max(now, emit_ns) + state.own_ns[position]

    def step(self, state: _ThreadState, position: int, now: int) -> int:
        """End a step: on a device, when it has drained what was launched by now."""
        now += state.own_ns[position]
        number, steps = state.args[position], self.steps[state.rank]
        until = self.drained_ns(state, now) if self.on_device else now
        before = steps[number - 1] if number else now
        steps[number] = max(now, until, before)
        return now

    def drained_ns(self, state: _ThreadState, now: int) -> int:
        """Return when the devices of a thread's rank are through with what is enqueued."""
        return max(self.free[state.streams], default=now)

    def data(self, state: _ThreadState, position: int, now: int) -> int:
        """Take a batch: from its source, else as recorded (the wait is the segment)."""
        source = find_source(self.sources, state.args[position])
        batch_ns = now if source is None else source.hand_over(now)
        return max(now, batch_ns) + state.own_ns[position]

    def ask(self, state: _ThreadState, position: int, now: int) -> int:
        """Request a batch: from here on its wait is simulated, not what was recorded."""
        return now + state.own_ns[position]

    def event(self, state: _ThreadState, position: int, now: int) -> int:
        """Wait for one activity."""
        job = state.args[position]
        return max(now, self.ends[job] if job >= 0 else now) + state.own_ns[position]


def _make_simulator(
    graph: Graph, states: list[_ThreadState], sources: Mapping[int, Source]
) -> _Simulator:
    work = pace_work(graph)
    count = len(work.stream)
    meeting = fill_column(work.meeting, count, -1)
    heads: Sequence[Int64] = graph.heads or [np.empty(0, np.int64) for _ in graph.streams]
    return _Simulator(
        states=states,
        sources=sources,
        on_device=graph.on_device,
        stream=work.stream.tolist(),
        duration=work.duration.tolist(),
        lag=work.lag.tolist(),
        gap=work.gap.tolist(),
        near_gap=work.near_gap.tolist(),
        late=fill_column(work.late, count).tolist(),
        hop=work.hop,
        slot=fill_column(work.slot, count, 1).tolist(),
        after=work.after,
        capacity=graph.capacity,
        free=[_ALWAYS if end < 0 else end for end in graph.backlog_ends.tolist()],
        queue_ends=[head.tolist() for head in heads],
        starts=[-1] * count,
        ends=[-1] * count,
        steps=[[span.start] * len(graph.steps) for span in graph.rank_spans],
        heaps=[[] for _ in graph.rank_spans],
        meeting=meeting.tolist(),
        meetings={number: _Meeting(missing) for number, missing in _count_members(meeting)},
    )


def _count_members(meeting: Int64) -> list[tuple[int, int]]:
    """Return each collective, and how many ranks are to come to it."""
    numbers, counts = np.unique(meeting[meeting >= 0], return_counts=True)
    return list(zip(numbers.tolist(), counts.tolist(), strict=True))


def _make_states(graph: Graph, alpha: float, sources: Mapping[int, Source]) -> list[_ThreadState]:
    """Return the threads of all ranks before they begin."""
    return [
        _thread_state(thread, thread_costs(thread, alpha, sources, graph.pace), rank, span)
        for rank, span in enumerate(graph.rank_spans)
        for thread in graph.threads[slice(*span.threads)]
    ]


def _thread_state(
    thread: GraphThread, costs: tuple[Int64, Int64], rank: int, span: RankSpan
) -> _ThreadState:
    segments, own_ns = costs
    count = len(thread.ops)
    return _ThreadState(
        ops=thread.ops.tolist(),
        args=thread.args.tolist(),
        segments=segments.tolist(),
        own_ns=own_ns.tolist(),
        begin=[0] * count,
        end=[0] * count,
        rank=rank,
        streams=slice(*span.streams),
    )
