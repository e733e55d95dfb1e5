"""torch's DataLoader as queues: when a batch is handed over, given when it is requested.

After ``torch/utils/data/dataloader.py`` (2.4 to 2.13): ``prefetch_factor`` × workers lists of
indices are given out when an iteration begins, one worker after another, and one more at each
hand-over; a worker makes its batches one after another; messages are taken as they arrive, and one
that is not due is held back (``in_order=False``: handed over at once, and the next list goes to a
worker with room); a pinning thread is one server between workers and training; without workers the
batch is made while it is asked for. All times are integer nanoseconds.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

from msgspec import Struct

_NO_TIME: Final = (0,)


class Source(Protocol):
    """What hands batches over to a training thread."""

    def hand_over(self, ask_ns: int) -> int:
        """Return when the next batch is handed over, if it is requested at a given time."""
        ...


class QueueSettings(Struct, frozen=True):
    """The settings of a loader."""

    workers: int
    prefetch: int = 2
    in_order: bool = True
    pinned: bool = False
    persistent: bool = False
    batches: int | None = None  # of an iteration; None: it has no end


class LoaderCosts(Struct, frozen=True):
    """What batches cost, in ns, by number since the start; each column is cyclic."""

    fetch: Sequence[int]  # in a worker; without workers, in the training thread
    take: Sequence[int] = _NO_TIME  # to take a message from the workers' queue
    pin: Sequence[int] = _NO_TIME
    hand: Sequence[int] = _NO_TIME  # a hand-over itself: the next indices are drawn and given out
    transit: int = 0  # from the end of a fetch until its message can be taken
    reset: int = 0  # of iter(loader), besides the start of workers
    fork: int = 0  # of iter(loader), for each worker
    begin: int = 0  # until a worker that was started can fetch
    close: int = 0  # until workers have ended


class Queue:
    """A running loader. It begins its first iteration at the first request, if not before."""

    def __init__(self, settings: QueueSettings, costs: LoaderCosts) -> None:
        self.settings, self.costs = settings, costs
        self._begun = False
        self._before = 0  # batches of earlier iterations
        self._sent = self._due = self._handed = self._next = 0  # of this one
        self._free = [0] * settings.workers  # when each is done with what it was given
        self._tasks = [0] * settings.workers  # given to each and not handed over
        self._coming: list[tuple[int, int, int]] = []  # arrival, position, worker
        self._held: dict[int, int] = {}  # taken and not due: position → worker
        self._pinning = 0  # until when the pinning thread is busy

    def turn(self, now: int) -> int:
        """End the current iteration, begin another, and return when both is done."""
        settings, costs = self.settings, self.costs
        starts_workers = not (self._begun and settings.persistent)
        if self._begun and starts_workers and settings.workers:
            now += costs.close
        self._before += self._sent
        self._sent = self._due = self._handed = self._next = 0
        self._coming, self._held = [], {}
        self._tasks = [0] * settings.workers
        for worker in range(settings.workers):
            if starts_workers:
                now += costs.fork
                self._free[worker] = now + costs.begin
        self._begun = True
        now += costs.reset
        for _ in range(settings.workers * settings.prefetch):
            self._dispatch(now)
        return now

    def hand_over(self, ask_ns: int) -> int:
        """Return when the next batch is handed over, of the next iteration if one is over."""
        if not self._begun or self._handed == self.settings.batches:
            ask_ns = self.turn(ask_ns)
        self._handed += 1
        if not self.settings.workers:
            return self._make_batch(ask_ns)
        now, worker = self._take_due(ask_ns) if self.settings.in_order else self._take_any(ask_ns)
        now += _cost_at(self.costs.hand, self._number(self._handed - 1))
        self._tasks[worker] -= 1
        self._dispatch(now)
        return now

    def _number(self, position: int) -> int:
        return self._before + position

    def _make_batch(self, now: int) -> int:
        """Make a batch in the training thread."""
        number, costs = self._number(self._sent), self.costs
        self._sent += 1
        pin = _cost_at(costs.pin, number) if self.settings.pinned else 0
        return now + _cost_at(costs.hand, number) + _cost_at(costs.fetch, number) + pin

    def _take_due(self, now: int) -> tuple[int, int]:
        """Take messages until the batch that is due is there."""
        while self._due not in self._held:
            now, position, worker = self._take_message(now)
            self._held[position] = worker
        self._due += 1
        return now, self._held.pop(self._due - 1)

    def _take_any(self, now: int) -> tuple[int, int]:
        now, _, worker = self._take_message(now)
        return now, worker

    def _take_message(self, now: int) -> tuple[int, int, int]:
        """Take the message that arrives next.

        Nothing is given out while one is waited for, so all that can arrive before it is known; the
        pinning thread takes messages in the same order, and its time need not be simulated
        ahead.
        """
        arrival, position, worker = heappop(self._coming)
        number = self._number(position)
        take = _cost_at(self.costs.take, number)
        if not self.settings.pinned:
            return max(now, arrival) + take, position, worker
        pin = _cost_at(self.costs.pin, number)
        self._pinning = max(self._pinning, arrival) + take + pin
        return max(now, self._pinning), position, worker

    def _dispatch(self, now: int) -> None:
        """Hand the next list of indices to a worker, if there is one."""
        if self._sent == self.settings.batches:
            return
        worker = self._choose()
        ready_ns = max(now, self._free[worker]) + _cost_at(
            self.costs.fetch, self._number(self._sent)
        )
        self._free[worker] = ready_ns
        heappush(self._coming, (ready_ns + self.costs.transit, self._sent, worker))
        self._tasks[worker] += 1
        self._sent += 1

    def _choose(self) -> int:
        """Return the next worker in turn; out of order, the next that has room."""
        workers = self.settings.workers
        for _ in range(workers):
            worker = self._next
            self._next = (worker + 1) % workers
            if self.settings.in_order or self._tasks[worker] < self.settings.prefetch:
                return worker
        msg = f"{workers} workers have {sum(self._tasks)} lists, and no room for another"
        raise AssertionError(msg)


def _cost_at(column: Sequence[int], number: int) -> int:
    return column[number % len(column)]


class ShiftedSource(Struct, frozen=True):
    """A source whose clock is ahead of, or behind, that of the caller."""

    source: Source
    ahead: int

    def hand_over(self, ask_ns: int) -> int:
        """Return when the next batch is handed over, by the caller's clock."""
        return self.source.hand_over(ask_ns + self.ahead) - self.ahead


class Consumer(Struct, frozen=True):
    """What a training does between batches, in ns.

    ``host``: from a hand-over to the next request, cyclic. ``device``: how long a device works for
    each batch; the training thread is no more than ``ahead`` batches ahead of it.
    """

    host: Sequence[int]
    device: int = 0
    ahead: int = 1


class BatchTimes(Struct, frozen=True):
    """When batches were requested and handed over."""

    asks: tuple[int, ...]
    hand_overs: tuple[int, ...]

    def step(self, skip: int = 0) -> float:
        """Return the mean time from one hand-over to the next, without so many first ones."""
        hand_overs = self.hand_overs[skip:]
        return (hand_overs[-1] - hand_overs[0]) / (len(hand_overs) - 1)


def play_batches(source: Source, consumer: Consumer, batches: int) -> BatchTimes:
    """Simulate a training of so many batches that begins by requesting one."""
    asks, hand_overs, ends = list[int](), list[int](), list[int]()
    now = device_free = 0
    host, device = consumer.host, consumer.device
    for number in range(batches):
        if number:
            now += host[(number - 1) % len(host)]
        if device and number > consumer.ahead:
            now = max(now, ends[number - 1 - consumer.ahead])
        asks.append(now)
        now = source.hand_over(now)
        hand_overs.append(now)
        device_free = max(device_free, now) + device
        ends.append(device_free)
    return BatchTimes(tuple(asks), tuple(hand_overs))


def warm_up(queue: Queue, consumer: Consumer, batches: int, end_ns: int) -> Source:
    """Return a loader after so many batches, the last of them handed over at a given time."""
    if not batches:
        return queue
    batch_times = play_batches(queue, consumer, batches)
    return ShiftedSource(queue, batch_times.hand_overs[-1] - end_ns)
