"""Bound what a process writes in a day: every record while there is room for it, else sums.

Room is a first amount and so many bytes a second. Once it is spent, records are added up, until
the next multiple of a period on the clock that all processes of a host share. There what was saved
meanwhile goes into records again, in all of them at the same time: so what a worker fetched is
found beside the wait for it, and detail is spread over the whole run.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from ... import wire
from ..process_state import keep
from .sums import Stretch, pack_records

# Bytes, and bytes a second: 42 MB a day for a training, 16 MB for all its workers together. What
# follows from them, ``run.sqlite``, is half as large again; samples, windows and it stay below 200.
FIRST_BYTES, BYTES_PER_S = 16_000_000, 300
WORKERS_FIRST_BYTES, WORKERS_BYTES_PER_S = 6_000_000, 120
MIN_BYTES_PER_S = 8  # of one worker among many
MAX_SAVED_BYTES = 1_000_000  # may be saved up where the first amount is smaller
PERIOD_NS = 50_000_000_000  # so often detail begins again
STRETCH_NS = 5_000_000_000  # a sum is of at least so long; a kill loses the one that is under way
SUMS_SHARE = 4  # sums take a part of the rate, and last longer where that is not enough
WINDOW_BYTES = 4_000_000  # bytes of records of our windows, beyond all room

RARE = frozenset(
    (
        wire.ITER,
        wire.CLOSE,
        wire.COLLECTOR,
        wire.CHECKPOINT,
        wire.LOGGING,
        wire.PROFILING,
        wire.MODE,
        wire.USER_PROFILER,
        wire.SWITCH,
    )
)
RARE_FIRST = 5_000  # marks of each kind that are kept one by one, whatever room there is …
RARE_NS = 10_000_000_000  # … and then one in so long
_S = 1_000_000_000
_end = itemgetter(wire.MARK_FIELDS.index("end"))
LOOKED_AT = RARE | {wire.OBSERVER}
OVER = wire.EXHAUSTED | wire.RAISED

Mark = Any  # of seven integers; tuple[int, ...] in words of 3.9


class Thinning:
    """What a process has room for, and the sums of what it has not."""

    def __init__(self, first_bytes: float, rate: float, now: int) -> None:
        self.room = first_bytes
        self.rate = rate  # bytes a second
        self.most = max(first_bytes, MAX_SAVED_BYTES)
        self.filled = now
        self.shares = False  # it is one of several workers
        self.closed_until = 0
        self.held = 0  # bytes of detail left that is written in any case
        self.releasing = False
        self.stretch: Stretch | None = None
        self.before: list[Mark] = []  # the last marks that were kept
        self.rare: dict[int, tuple[float, int]] = {}  # by kind: marks left, at what time

    def frames(
        self, marks: list[Mark], batches: list[Any], now: int, *, last: bool = False
    ) -> list[bytes]:
        """Return the frames to write for records, each of which is kept or in one sum.

        ``last``: nothing may wait any more.
        """
        self.room = min(self.room + (now - self.filled) * self.rate / _S, self.most)
        self.filled = now
        size = len(marks) * wire.MARK.size + len(batches) * wire.BATCH.size
        if self._hold(size) or self._fits(size, now):
            written = self._keep_all(marks, batches)
        else:
            written = self._sum_up(marks, batches, now)
            if self.stretch is not None and (last or self._is_long(self.stretch, now)):
                written += self.stretch.close()
        self.spend(written)
        return written

    def spend(self, frames: list[bytes]) -> None:
        """Take what is written off the room."""
        self.room -= sum(map(len, frames))

    def _hold(self, size: int) -> bool:
        """Return whether detail is wanted whatever it takes."""
        if self.held <= 0:
            return False
        self.held = 0 if self.releasing else self.held - size
        return True

    def _fits(self, size: int, now: int) -> bool:
        if now < self.closed_until:
            return False
        if size <= self.room:
            return True
        self.closed_until = (now // PERIOD_NS + 1) * PERIOD_NS
        return False

    def _keep_all(self, marks: list[Mark], batches: list[Any]) -> list[bytes]:
        written = [] if self.stretch is None else self.stretch.close()
        self.stretch = None
        self.before = marks or self.before
        return [*written, *pack_records(wire.MARKS, marks), *pack_records(wire.BATCHES, batches)]

    def _sum_up(self, marks: list[Mark], batches: list[Any], now: int) -> list[bytes]:
        if self.stretch is None:
            self.stretch = Stretch(max(map(_end, self.before), default=-1))
            self.before = []
        stretch, written, kept_marks = self.stretch, [], []
        for record in sorted(marks, key=_end):  # collections are reported late
            rare = (record[0] in LOOKED_AT or record[1] & OVER > 0) and self._is_rare(record)
            if rare and record[0] == wire.MODE:  # no sum is of both, training and evaluation
                written += stretch.close()
            if not stretch.add(record, now, is_kept=rare):
                kept_marks.append(record)
        for record in batches:
            stretch.add_batch(record, now)
        stretch.trim()
        return [*written, *pack_records(wire.MARKS, kept_marks)]

    def _is_long(self, stretch: Stretch, now: int) -> bool:
        worth = stretch.size * SUMS_SHARE * _S / self.rate
        return stretch.begun >= 0 and now - stretch.begun >= max(STRETCH_NS, worth)

    def _is_rare(self, mark: Mark) -> bool:
        kind, flags = mark[:2]
        if flags & OVER:
            kind |= flags << 16
        elif kind == wire.OBSERVER:
            return mark[6] != wire.OBSERVER_FLUSH
        n_left, since_ns = self.rare.get(kind, (RARE_FIRST, mark[5]))
        n_left = min(n_left + max(mark[5] - since_ns, 0) / RARE_NS, RARE_FIRST)
        self.rare[kind] = (n_left - (n_left >= 1), max(mark[5], since_ns))
        return n_left >= 1


class _Budget:
    """How much this process may write, once it writes."""

    def __init__(self) -> None:
        self.thinning: Any = None

    def fork(self) -> None:
        """Begin anew: the child has another log."""
        self.thinning = None


_budget = keep(_Budget())


def begin(workers: int | None, now: int, allowance: float | None, before: tuple[int, int]) -> None:
    """Know how much this process may write: a worker has its share of all ``workers``.

    ``allowance``: the first amount of a training, if another is wanted. ``before``: bytes that
    predecessors wrote into the log, and the ns in which they did; they count as this one's.
    """
    first_bytes = FIRST_BYTES if allowance is None else allowance
    rate: float = BYTES_PER_S
    if workers is not None:
        first_bytes = first_bytes * WORKERS_FIRST_BYTES / FIRST_BYTES / max(workers, 1)
        rate = max(WORKERS_BYTES_PER_S / max(workers, 1), MIN_BYTES_PER_S)
    thinning = Thinning(first_bytes, rate, now)
    thinning.shares = workers is not None
    thinning.room = min(first_bytes + before[1] * rate / _S - before[0], thinning.most)
    _budget.thinning = thinning


def frames(
    texts: list[bytes], marks: list[Mark], batches: list[Any], now: int, *, last: bool = False
) -> list[bytes]:
    """Return the frames to write: texts as they are, and what becomes of the records."""
    thinning = _budget.thinning
    thinning.spend(texts)
    return [*texts, *thinning.frames(marks, batches, now, last=last)]


def affords(*, last: bool = False) -> bool:
    """Return whether there is room for what need not be written now: counts that go on meanwhile.

    At its end (``last``) a training writes them in any case; of workers there may be any number.
    """
    thinning = _budget.thinning
    return thinning is None or thinning.room > 0 or (last and not thinning.shares)


def hold() -> None:
    """Keep every record from now on: a window is open."""
    if _budget.thinning is not None:
        _budget.thinning.held, _budget.thinning.releasing = WINDOW_BYTES, False


def release() -> None:
    """Keep those that wait now, and then as many as there is room for."""
    if _budget.thinning is not None:
        _budget.thinning.releasing = True
