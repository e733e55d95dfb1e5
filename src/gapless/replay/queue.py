"""torch's DataLoader as queues: when a batch is handed over, given when it is asked for.

After ``torch/utils/data/dataloader.py`` (2.4 to 2.13): ``prefetch_factor`` × workers lists of
indices are given out when an iteration begins, one worker after another, and one more at each
hand-over; a worker makes its batches one after another; messages are taken as they arrive, and one
that is not due is held back (``in_order=False``: handed over at once, and the next list goes to a
worker with room); a pinning thread is one server between workers and training; without workers the
batch is made while it is asked for. All times are integer nanoseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Protocol

_NOTHING: Final = (0,)


class Source(Protocol):
    """What hands batches over to a training thread."""

    def got(self, ask_ns: int) -> int:
        """Give when the next batch is handed over, if it is asked for at an instant."""
        ...


@dataclass(frozen=True)
class Settings:
    """How a loader was made."""

    workers: int
    prefetch: int = 2
    in_order: bool = True
    pinned: bool = False
    persistent: bool = False
    batches: int | None = None  # of an iteration; None: it has no end


@dataclass(frozen=True)
class Costs:
    """What batches cost, in ns, by number since the start; each column begins anew at its end."""

    fetch: Sequence[int]  # in a worker; without workers, in the training thread
    take: Sequence[int] = _NOTHING  # to take a message from the workers' queue
    pin: Sequence[int] = _NOTHING
    hand: Sequence[int] = _NOTHING  # a hand-over itself: the next indices are drawn and given out
    transit: int = 0  # from the end of a fetch until its message can be taken
    reset: int = 0  # of iter(loader), beside the start of workers
    fork: int = 0  # of iter(loader), for each worker
    begin: int = 0  # until a worker that was started can fetch
    close: int = 0  # until workers have ended


class Queue:
    """A loader under way. It begins its first iteration at the first question, if not before."""

    def __init__(self, settings: Settings, costs: Costs) -> None:
        self.settings, self.costs = settings, costs
        self._begun = False
        self._before = 0  # batches of earlier iterations
        self._sent = self._due = self._handed = self._next = 0  # of this one
        self._free = [0] * settings.workers  # when each is through with what it was given
        self._tasks = [0] * settings.workers  # given to each and not handed over
        self._coming: list[tuple[int, int, int]] = []  # arrival, position, worker
        self._held: dict[int, int] = {}  # taken and not due: position → worker
        self._pinning = 0  # until when the pinning thread is busy

    def turn(self, now: int) -> int:
        """End the iteration that is under way, begin another, and give when both is done."""
        settings, costs = self.settings, self.costs
        anew = not (self._begun and settings.persistent)
        if self._begun and anew and settings.workers:
            now += costs.close
        self._before += self._sent
        self._sent = self._due = self._handed = self._next = 0
        self._coming, self._held = [], {}
        self._tasks = [0] * settings.workers
        for worker in range(settings.workers):
            if anew:
                now += costs.fork
                self._free[worker] = now + costs.begin
        self._begun = True
        now += costs.reset
        for _ in range(settings.workers * settings.prefetch):
            self._dispatch(now)
        return now

    def got(self, ask_ns: int) -> int:
        """Give when the next batch is handed over; where an iteration is over, of the next one."""
        if not self._begun or self._handed == self.settings.batches:
            ask_ns = self.turn(ask_ns)
        self._handed += 1
        if not self.settings.workers:
            return self._made(ask_ns)
        now, worker = self._in_turn(ask_ns) if self.settings.in_order else self._any(ask_ns)
        now += _of(self.costs.hand, self._number(self._handed - 1))
        self._tasks[worker] -= 1
        self._dispatch(now)
        return now

    def _number(self, position: int) -> int:
        return self._before + position

    def _made(self, now: int) -> int:
        """Make a batch in the training thread."""
        number, costs = self._number(self._sent), self.costs
        self._sent += 1
        pin = _of(costs.pin, number) if self.settings.pinned else 0
        return now + _of(costs.hand, number) + _of(costs.fetch, number) + pin

    def _in_turn(self, now: int) -> tuple[int, int]:
        """Take messages until the batch that is due is there."""
        while self._due not in self._held:
            now, position, worker = self._message(now)
            self._held[position] = worker
        self._due += 1
        return now, self._held.pop(self._due - 1)

    def _any(self, now: int) -> tuple[int, int]:
        now, _, worker = self._message(now)
        return now, worker

    def _message(self, now: int) -> tuple[int, int, int]:
        """Take the message that arrives next.

        Nothing is given out while one is waited for, so all that can arrive before it is known; the
        pinning thread takes messages in the same order, and its time need not be played ahead.
        """
        arrival, position, worker = heappop(self._coming)
        number = self._number(position)
        take = _of(self.costs.take, number)
        if not self.settings.pinned:
            return max(now, arrival) + take, position, worker
        pin = _of(self.costs.pin, number)
        self._pinning = max(self._pinning, arrival) + take + pin
        return max(now, self._pinning), position, worker

    def _dispatch(self, now: int) -> None:
        """Give the next list of indices to a worker, if there is one."""
        if self._sent == self.settings.batches:
            return
        worker = self._choose()
        done = max(now, self._free[worker]) + _of(self.costs.fetch, self._number(self._sent))
        self._free[worker] = done
        heappush(self._coming, (done + self.costs.transit, self._sent, worker))
        self._tasks[worker] += 1
        self._sent += 1

    def _choose(self) -> int:
        """Give the next worker in turn; out of order, the next that has room."""
        workers = self.settings.workers
        for _ in range(workers):
            worker = self._next
            self._next = (worker + 1) % workers
            if self.settings.in_order or self._tasks[worker] < self.settings.prefetch:
                return worker
        msg = f"{workers} workers have {sum(self._tasks)} lists, and no room for another"
        raise AssertionError(msg)


def _of(column: Sequence[int], number: int) -> int:
    return column[number % len(column)]


@dataclass(frozen=True)
class Shifted:
    """A source whose clock goes ahead of, or behind, that of who asks."""

    source: Source
    ahead: int

    def got(self, ask_ns: int) -> int:
        """Give when the next batch is handed over, by the clock of who asks."""
        return self.source.got(ask_ns + self.ahead) - self.ahead


@dataclass(frozen=True)
class Consumer:
    """What a training does between batches, in ns.

    ``host``: from a hand-over to the next question, one after another, then anew from the first.
    ``device``: what a device works on for each batch; the training thread is no more than ``ahead``
    batches ahead of it.
    """

    host: Sequence[int]
    device: int = 0
    ahead: int = 1


@dataclass(frozen=True)
class Asked:
    """When batches were asked for and handed over."""

    ask: tuple[int, ...]
    got: tuple[int, ...]

    def step(self, leave: int = 0) -> float:
        """Give the mean time from one hand-over to the next, without so many first ones."""
        got = self.got[leave:]
        return (got[-1] - got[0]) / (len(got) - 1)


def simulate(source: Source, consumer: Consumer, batches: int, start: int = 0) -> Asked:
    """Play a training of so many batches that begins by asking for one."""
    ask, got, ends = list[int](), list[int](), list[int]()
    now = free = start
    host, device = consumer.host, consumer.device
    for number in range(batches):
        if number:
            now += host[(number - 1) % len(host)]
        if device and number > consumer.ahead:
            now = max(now, ends[number - 1 - consumer.ahead])
        ask.append(now)
        now = source.got(now)
        got.append(now)
        free = max(free, now) + device
        ends.append(free)
    return Asked(tuple(ask), tuple(got))


def warmed(queue: Queue, consumer: Consumer, batches: int, at: int) -> Source:
    """Give a loader as it is after so many batches, the last of them handed over at an instant."""
    if not batches:
        return queue
    played = simulate(queue, consumer, batches)
    return Shifted(queue, played.got[-1] - at)
