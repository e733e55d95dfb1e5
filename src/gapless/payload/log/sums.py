"""Add up the records of a stretch of time that are too many to be kept one by one.

Each kind of mark becomes one row: how many, how long in all, the longest. "In all" leaves out what
lies inside a mark on its thread and is counted by itself, so that a stretch can be split by its
rows. Marks come about in the order of their ends; the odd one that is late is put in its place.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any

from ... import wire
from . import unobserved

MAX_ROWS = 64  # rows of a stretch; after that, subjects are not distinguished
MAX_THREAD_MARKS = 512  # marks of a thread that one which contains them may still come for
# What lies inside another is taken off it if it is of these: the others are no time of their own.
CHARGED = frozenset(
    (
        wire.NEXT,
        wire.ITER,
        wire.CLOSE,
        wire.COLLECTOR,
        wire.CHECKPOINT,
        wire.LOGGING,
        wire.OBSERVER,
        wire.PROFILING,
    )
)
LOOSE = frozenset(  # on no thread's account
    (wire.DEVICE_STEP, wire.DEVICE_EDGE, wire.MODE, wire.USER_PROFILER)
)
_STAGES = len(wire.BATCH_FIELDS) - 14
_COUNT, _TOTAL, _LONGEST, _VALUE = range(4)


class MarkedThread:
    """The charged marks of a thread that are inside no other so far: (start, end, row)."""

    __slots__ = ("known", "marks")

    def __init__(self, known_since: int) -> None:
        self.known = known_since  # since when every mark of it is
        self.marks: list[tuple[int, int, list[int] | None]] = []

    def insert(self, start: int, end: int, row: list[int] | None, *, charged: bool) -> int:
        """Return how many ns of charged marks lie inside; if it is charged itself, remember it."""
        marks = self.marks
        if not marks or marks[-1][1] <= start < end:  # as most are
            if charged:
                marks.append((start, end, row))
            return 0
        high = len(marks)
        while high and marks[high - 1][1] > end:
            high -= 1
        low = high
        while low and marks[low - 1][0] >= start:
            low -= 1
        inside = sum(mark[1] - mark[0] for mark in marks[low:high])
        if charged and high < len(marks) and marks[high][0] <= start:  # reported late, and inside
            outer = marks[high][2]
            if outer is not None:
                outer[_TOTAL] -= end - start
        elif charged:
            marks[low:high] = [(start, end, row)]
        return inside

    def trim(self) -> None:
        """Forget those that hardly any other mark will come for."""
        if len(self.marks) > MAX_THREAD_MARKS:
            del self.marks[:-MAX_THREAD_MARKS]
            self.known = max(self.known, self.marks[0][0])


class Stretch:
    """Sums since the last record that was kept."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start  # of the last mark before; −1: there is none
        self.begun = -1  # when the first record was added
        self._known = start
        self._threads: dict[int, MarkedThread] = {}
        self._marks: dict[tuple[int, int, int, int], list[int]] = {}
        self._batches: dict[tuple[int, int], list[int]] = {}

    @property
    def size(self) -> int:
        """Return how many bytes the rows take."""
        return len(self._marks) * wire.MARK_SUM.size + len(self._batches) * wire.BATCH_SUM.size

    def add(self, mark: tuple[int, ...], now_ns: int, *, is_kept: bool = False) -> bool:
        """Add a mark and return True; False for one that is kept and only subtracted around it.

        So are those set to be kept, and a mark that may contain some from before our time.
        """
        kind, flags, subject, number, start, end, _ = mark
        if self.begun < 0 or self.start < 0:
            self._begin(start, now_ns)
        if kind in LOOSE:
            return not is_kept and self._add_loose(mark)
        thread = self._threads.get(number) or self._thread(number)
        is_kept = is_kept or start < thread.known
        row = None if is_kept else self._row(kind, flags, subject, number)
        own_ns = end - start - thread.insert(start, end, row, charged=kind in CHARGED)
        if end > self.end:  # noqa: PLR1730 - a tenth of the time of it all
            self.end = end
        if row is None:
            return False
        row[_COUNT] += 1
        row[_TOTAL] += own_ns
        if end - start > row[_LONGEST]:  # noqa: PLR1730 - likewise
            row[_LONGEST] = end - start
        return True

    def _add_loose(self, mark: tuple[int, ...]) -> bool:
        kind, flags, subject, number, start, end, value = mark
        row = self._row(kind, flags, subject, number)
        row[_COUNT] += 1
        row[_TOTAL] += end - start
        row[_LONGEST] = max(row[_LONGEST], end - start)
        if kind == wire.DEVICE_STEP:
            row[_VALUE] += value
        return True

    def trim(self) -> None:
        """Forget what is hardly needed any more."""
        for thread in self._threads.values():
            thread.trim()

    def add_batch(self, values: tuple[int, ...], now_ns: int) -> None:
        """Add a fetch: the values of ``wire.BATCH_FIELDS``."""
        if self.begun < 0:
            self.begun = now_ns
        loader, worker, _, samples, start, end = values[:6]
        key = (loader, worker)
        if key not in self._batches and len(self._batches) >= MAX_ROWS:
            key = (-1, worker)
        row = self._batches.get(key)
        if row is None:
            empty = [start, end, *[0] * (len(wire.BATCH_SUM_FIELDS) - 4)]
            row = self._batches[key] = empty
        row[0], row[1] = min(row[0], start), max(row[1], end)
        row[2] += 1
        row[3] = _sum(row[3], samples)
        row[4] += end - start
        for index, value in enumerate(values[6:12], 5):
            row[index] = _sum(row[index], value)
        random, detailed = values[12:14]
        row[11] += random == 1
        row[12] += random >= 0
        if detailed == 1:
            row[13] += 1
            for index, value in enumerate(values[14:], 14):
                row[index] = _sum(row[index], value)
            row[14 + _STAGES] += end - start
            row[15 + _STAGES] = _sum(row[15 + _STAGES], samples)

    def close(self) -> list[bytes]:
        """Return the frames of the sums, and begin another stretch behind them."""
        span = self.start, self.end
        marks = [(*key, *span, *row) for key, row in self._marks.items()]
        batches = [(*key, *row) for key, row in self._batches.items()]
        self._marks, self._batches = {}, {}
        self.start, self.begun = self.end, -1
        return [*pack_records(wire.MARK_SUMS, marks), *pack_records(wire.BATCH_SUMS, batches)]

    def _begin(self, start: int, now_ns: int) -> None:
        self.begun = now_ns if self.begun < 0 else self.begun
        if self.start < 0:
            self.start = self.end = self._known = start

    def _thread(self, number: int) -> MarkedThread:
        if len(self._threads) >= MAX_ROWS:  # a thread for each step, say
            self._threads.clear()
            self._known = self.end
        thread = self._threads[number] = MarkedThread(self._known)
        return thread

    def _row(self, kind: int, flags: int, subject: int, thread: int) -> list[int]:
        key = (kind, flags, subject, thread)
        row = self._marks.get(key)
        if row is None:
            if len(self._marks) >= MAX_ROWS:
                key = (kind, flags, wire.NOBODY, -1)
            value = 0 if kind == wire.DEVICE_STEP else -1
            row = self._marks.setdefault(key, [0, 0, 0, value])
        return row


def pack_records(kind: int, records: list[Any]) -> list[bytes]:
    """Return the frame of some records, none for no records; what is no record is left out."""
    body = b"".join(map(_bytes, itertools.repeat(wire.RECORDS[kind]), records))
    return [wire.frame(kind, body)] if body else []


def _bytes(layout: struct.Struct, record: tuple[int, ...]) -> bytes:
    try:
        return layout.pack(*record)
    except struct.error as error:
        unobserved.note("record", repr(error))
        return b""


def _sum(before: int, value: int) -> int:
    """Add; what was not observed of one is not known of all."""
    return -1 if before < 0 or value < 0 else before + value
