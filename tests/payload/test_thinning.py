"""What a process writes in a day is bounded, and each record is kept or in one sum."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless import wire
from gapless.payload import sums, thinning
from gapless.payload.thinning import PERIOD_NS, RARE_FIRST, STRETCH_NS, Thinning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Mark = tuple[int, ...]
S = 1_000_000_000
MS = 1_000_000


class Read:
    """The records in some frames."""

    def __init__(self, frames: Iterable[bytes]) -> None:
        found, _ = wire.frames(b"".join(frames))
        self.marks: list[Mark] = self._of(found, wire.MARKS)
        self.batches: list[Mark] = self._of(found, wire.BATCHES)
        fields = wire.MARK_SUM_FIELDS
        self.mark_sums = [
            dict(zip(fields, one, strict=True)) for one in self._of(found, wire.MARK_SUMS)
        ]
        fields = wire.BATCH_SUM_FIELDS
        self.batch_sums = [
            dict(zip(fields, one, strict=True)) for one in self._of(found, wire.BATCH_SUMS)
        ]

    @staticmethod
    def _of(found: Sequence[wire.Frame], kind: int) -> list[Mark]:
        layout = wire.RECORDS[kind]
        return [
            one for frame in found if frame.kind == kind for one in layout.iter_unpack(frame.body)
        ]

    def counts(self) -> Counter[tuple[int, int]]:
        """Count the marks by kind and flags, kept and summed."""
        counts = Counter((one[0], one[1]) for one in self.marks)
        for one in self.mark_sums:
            counts[one["kind"], one["flags"]] += one["count"]
        return counts


def spent(first: float = 0, rate: float = 100, now: int = 1) -> Thinning:
    """Give one in which detail has ended until the next period."""
    made = Thinning(first, rate, now)
    made.closed_until = PERIOD_NS
    return made


def mark(kind: int, start: int, end: int, **more: int) -> Mark:
    given = {"flags": 0, "subject": 0, "thread": 1, "value": -1} | more
    return kind, given["flags"], given["subject"], given["thread"], start, end, given["value"]


def batch(start: int, end: int, **more: int) -> Mark:
    given = {"loader": 0, "worker": 1, "samples": 4, "start": start, "end": end} | more
    return tuple(given.get(name, -1) for name in wire.BATCH_FIELDS)


# ── Sums against brute force ────────────────────────────────────────────────────────────────────

KINDS = (wire.STEP, wire.NEXT, wire.DISPATCH, wire.SYNC, wire.OBSERVER, wire.DEVICE_STEP)


@st.composite
def nested(draw: st.DrawFn) -> list[Mark]:
    """Draw marks of two threads as they are made: those inside before those around."""
    marks: list[Mark] = []
    for thread in (1, 2):
        at = draw(st.integers(0, 9))
        for _ in range(draw(st.integers(0, 6))):
            at = _tree(draw, marks, thread, at, 3)
    return sorted(marks, key=lambda one: one[5])  # stable: inner ones stay before outer ones


def _tree(draw: st.DrawFn, marks: list[Mark], thread: int, at: int, depth: int) -> int:
    start = at
    at += draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        at = _tree(draw, marks, thread, at, depth - 1) + draw(st.integers(0, 2))
    at += draw(st.integers(0, 5))
    kind = draw(st.sampled_from(KINDS))
    subject = draw(st.integers(0, 1))
    marks.append(mark(kind, start, at, subject=subject, thread=thread, value=0))
    return at + draw(st.integers(0, 3))


def exclusive(marks: Sequence[Mark]) -> Counter[Mark]:
    """Sum the length of marks less that of the charged ones inside, by looking at all pairs."""
    totals: Counter[Mark] = Counter()
    for at, (kind, flags, subject, thread, start, end, _) in enumerate(marks):
        covered: set[int] = set()
        for other in marks[:at] if kind not in sums.LOOSE else ():
            inside = other[3] == thread and start <= other[4] and other[5] <= end
            if inside and other[0] in sums.CHARGED:
                covered.update(range(other[4], other[5]))
        totals[kind, flags, subject, thread] += end - start - len(covered)
    return totals


@settings(deadline=None)
@given(nested(), st.lists(st.integers(1, 12), max_size=30))
def test_each_mark_is_counted_once_and_the_totals_are_their_own_time(
    marks: list[Mark], cuts: list[int]
) -> None:
    one = spent()
    frames: list[bytes] = []
    rest = list(marks)
    for cut in [*cuts, len(marks)]:  # as many flushes
        some, rest = rest[:cut], rest[cut:]
        frames += one.frames(some, [], 2)
    frames += one.frames([], [], 3, last=True)
    read = Read(frames)
    assert read.counts() == Counter((mark[0], mark[1]) for mark in marks)
    kept = Counter(read.marks)
    # A mark that may hold some of before is kept; here only the first of a thread can be.
    left = exclusive(marks)
    for index, each in enumerate(marks):
        if kept[each]:
            left.subtract({each[:4]: _own(marks, index)})
            kept[each] -= 1
    found: Counter[Mark] = Counter()
    for row in read.mark_sums:
        found[row["kind"], row["flags"], row["subject"], row["thread"]] += row["total"]
    assert +found == +left
    assert all(row["longest"] >= 0 and row["start"] <= row["end"] for row in read.mark_sums)


def _own(marks: Sequence[Mark], index: int) -> int:
    before, one = marks[:index], marks[index]
    return exclusive([*before, one])[one[:4]] - exclusive(before)[one[:4]]


def test_a_collection_that_is_told_late_is_taken_off_the_wait_around_it() -> None:
    one = spent()
    one.rare[wire.COLLECTOR] = (0, 0)  # no longer kept one by one
    frames = one.frames([mark(wire.NEXT, 10, 20), mark(wire.STEP, 30, 40)], [], 2)
    frames += one.frames([mark(wire.COLLECTOR, 12, 15)], [], 3, last=True)
    totals = {row["kind"]: row["total"] for row in Read(frames).mark_sums}
    assert totals == {wire.NEXT: 7, wire.STEP: 10, wire.COLLECTOR: 3}


def test_time_on_the_device_is_added_up_and_on_no_threads_account() -> None:
    one = spent()
    marks = [mark(wire.NEXT, 10, 20), mark(wire.DEVICE_STEP, 0, 19, value=7)] * 2
    (wait, device) = Read(one.frames(marks, [], 2, last=True)).mark_sums
    if wait["kind"] != wire.NEXT:
        wait, device = device, wait
    assert (wait["total"], wait["value"]) == (10, -1), "the second call contains the first"
    assert (device["count"], device["total"], device["value"]) == (2, 38, 14)


def test_fetches_are_added_up_and_what_was_not_observed_of_one_is_not_known() -> None:
    one = spent()
    stages = dict.fromkeys(wire.BATCH_FIELDS[14:], 2)
    rows = [
        batch(10, 30, cpu=5, run_queue=1, minor_faults=3, random=1, detailed=1, **stages),
        batch(40, 45, cpu=5, run_queue=-1, minor_faults=3, random=-1, detailed=0),
        batch(50, 60, cpu=5, run_queue=1, minor_faults=3, random=0, detailed=0, loader=1),
    ]
    first, other = Read(one.frames([], rows, 2, last=True)).batch_sums
    told = {name: first[name] for name in ("start", "end", "count", "samples", "wall", "cpu")}
    assert told == {"start": 10, "end": 45, "count": 2, "samples": 8, "wall": 25, "cpu": 10}
    assert (first["run_queue"], first["minor_faults"], other["run_queue"]) == (-1, 6, 1)
    assert (first["random"], first["looked"], other["random"], other["looked"]) == (1, 1, 0, 1)
    assert (first["detailed"], first["detailed_wall"], first["detailed_samples"]) == (1, 20, 4)
    assert {first[name] for name in stages} == {2}
    assert other["detailed"] == other["collate_cpu"] == 0


def test_a_stretch_begins_with_its_first_mark_also_where_a_fetch_came_before() -> None:
    one = spent()
    frames = one.frames([], [batch(10, 30)], 2)
    frames += one.frames([mark(wire.NEXT, 31, 35)], [], 3, last=True)
    (row,) = Read(frames).mark_sums
    assert (row["start"], row["end"]) == (31, 35)


def test_subjects_without_end_do_not_make_rows_without_end() -> None:
    one = spent()
    marks = [mark(wire.SYNC, n, n + 1, subject=n, thread=n) for n in range(10_000)]
    rows = Read(one.frames(marks, [], 2, last=True)).mark_sums
    assert len(rows) == sums.MOST + 1
    assert sum(row["count"] for row in rows) == 10_000
    last = rows[-1]
    assert (last["subject"], last["thread"]) == (wire.NOBODY, -1)


# ── When ────────────────────────────────────────────────────────────────────────────────────────


def training(length: int, until: int, one: Thinning) -> tuple[Read, int]:
    """Step for so long, flushing each tenth of a second; give what was written, and its bytes."""
    written: list[bytes] = []
    waiting: list[Mark] = []
    flushed = at = 0
    while at < until:
        waiting += [
            mark(wire.DISPATCH, at, at + length // 10),
            mark(wire.NEXT, at, at + length // 5),
            mark(wire.STEP, at + length // 2, at + length),
            mark(wire.DEVICE_STEP, at, at + length, value=length),
        ]
        at += length
        if at - flushed >= S // 10:
            flushed = at
            written += one.frames(waiting, [], at)
            waiting = [mark(wire.OBSERVER, at, at, value=wire.OBSERVER_FLUSH)]
    written += one.frames(waiting, [], at, last=True)
    return Read(written), sum(map(len, written))


@pytest.mark.parametrize(
    ("length", "until"),
    [(MS, 160 * S), (10 * MS, 600 * S), (100 * MS, 2000 * S), (S, 2000 * S)],
)
def test_what_is_written_stays_within_room_whatever_the_length_of_a_step(
    length: int, until: int
) -> None:
    one = Thinning(10_000, 300, 0)
    read, size = training(length, until, one)
    assert size <= 10_000 + 1.05 * 300 * until / S
    steps = sum(one[0] == wire.STEP for one in read.marks)
    summed = sum(row["count"] for row in read.mark_sums if row["kind"] == wire.STEP)
    assert steps + summed == until // length
    assert steps >= 20 * (until // (4 * PERIOD_NS) + 1), "some are kept"
    assert size >= min(0.5 * 300 * until / S, 44 * 4 * until // length), "room is used"


def test_detail_begins_again_at_instants_that_all_processes_share() -> None:
    read, _ = training(10 * MS, 300 * S, Thinning(5_000, 300, 0))
    ends = sorted(one[5] for one in read.marks if one[0] == wire.STEP)
    begun = [after for before, after in pairwise(ends) if after - before > S]
    assert len(begun) >= 3
    assert all((one + S // 5) % PERIOD_NS < S // 2 for one in begun)


def test_stretches_follow_one_another_and_records() -> None:
    read, _ = training(10 * MS, 200 * S, Thinning(5_000, 300, 0))
    spans = sorted({(row["start"], row["end"]) for row in read.mark_sums})
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    kept = sorted(one[5] for one in read.marks if one[0] != wire.DEVICE_STEP)
    assert not any(start < end < stop for start, stop in spans for end in kept)
    lengths = [stop - start for start, stop in spans]
    assert sum(one >= STRETCH_NS * 0.95 for one in lengths) > 0.8 * len(lengths)


def test_rare_marks_are_kept_one_by_one_while_they_are_rare() -> None:
    one = spent(rate=1e9)
    many = 2 * RARE_FIRST
    frames: list[bytes] = []
    for at in range(many):
        marks = [mark(wire.LOGGING, 10 * at, 10 * at + 5), mark(wire.ITER, at, at)][: 1 + (at < 9)]
        frames += one.frames(marks, [], 2)
    window = mark(wire.OBSERVER, 10 * many, 10 * many + 1, value=wire.OBSERVER_WINDOW)
    over = mark(wire.NEXT, 10 * many + 1, 10 * many + 2, flags=wire.EXHAUSTED)
    read = Read([*frames, *one.frames([window, over], [], 3, last=True)])
    kept = Counter(each[0] for each in read.marks)
    assert kept == {wire.LOGGING: RARE_FIRST, wire.ITER: 9, wire.OBSERVER: 1, wire.NEXT: 1}
    assert read.counts()[wire.LOGGING, 0] == many


def test_no_sum_is_of_training_and_evaluation_alike() -> None:
    one = spent()
    steps = [mark(wire.STEP, n, n + 1) for n in range(6)]
    modes = [mark(wire.MODE, 3, 3, value=0)]
    read = Read(one.frames([*steps[:3], *modes, *steps[3:]], [], 2, last=True))
    assert [(row["start"], row["end"], row["count"]) for row in read.mark_sums] == [
        (0, 3, 3),
        (3, 6, 3),
    ]
    assert read.marks == modes


def test_a_mark_that_began_before_the_stretch_is_kept() -> None:
    one = Thinning(1_000, 1, 1)
    step = mark(wire.STEP, 10, 20)
    pin = mark(wire.PIN, 15, 30, thread=2)
    frames = one.frames([step], [], 2)
    one.closed_until = PERIOD_NS
    frames += one.frames([pin, mark(wire.NEXT, 21, 25)], [], 3, last=True)
    read = Read(frames)
    assert read.marks == [step, pin]
    (row,) = read.mark_sums
    assert (row["kind"], row["start"], row["end"]) == (wire.NEXT, 20, 30)


def test_a_mark_around_more_than_is_remembered_is_kept() -> None:
    one = spent()
    one.rare[wire.ITER] = (0, 0)
    waits = [mark(wire.NEXT, 2 * n + 1, 2 * n + 2) for n in range(2 * sums.DEEP)]
    outer, last = mark(wire.ITER, 1, 9_999), mark(wire.ITER, 2 * sums.DEEP + 3, 9_998)
    read = Read([*one.frames(waits, [], 2), *one.frames([last, outer], [], 3, last=True)])
    assert read.marks == [outer]
    totals = {row["kind"]: row["total"] for row in read.mark_sums}
    inside = sum(start >= last[4] for _, _, _, _, start, *_ in waits)
    assert totals[wire.ITER] == last[5] - last[4] - inside


def test_a_window_of_ours_lies_in_full_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    one = spent()
    monkeypatch.setattr(thinning, "_thinning", [one])
    step = [mark(wire.STEP, n, n + 1) for n in range(4)]
    frames = thinning.frames([], step[:1], [], 2)
    thinning.hold()
    frames += thinning.frames([], step[1:2], [], 3)
    thinning.release()
    frames += thinning.frames([], step[2:3], [], 4)
    frames += thinning.frames([], step[3:], [], 5, last=True)
    read = Read(frames)
    assert read.marks == step[1:3]
    assert [(row["start"], row["end"]) for row in read.mark_sums] == [(0, 1), (3, 4)]


# ── How much ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    known: list[Any] = []
    monkeypatch.setattr(thinning, "_thinning", known)
    return known


def test_a_worker_has_a_share(begun: list[Any]) -> None:
    thinning.begin(None, 1, None, (0, 0))
    training = begun[0]
    thinning.begin(4, 1, None, (0, 0))
    worker = begun[0]
    assert (training.room, training.rate) == (thinning.FIRST, thinning.RATE)
    assert 4 * worker.room == pytest.approx(thinning.FIRST_OF_WORKERS)
    assert 4 * worker.rate == thinning.RATE_OF_WORKERS
    thinning.begin(4, 1, thinning.FIRST / 2, (0, 0))
    assert begun[0].room == pytest.approx(worker.room / 2), "the allowance that is asked for"


def test_what_predecessors_wrote_counts(begun: list[Any]) -> None:
    thinning.begin(2, 1, 0, (90_000, 600 * S))
    assert begun[0].room == 60 * 600 - 90_000
    assert not thinning.affords()
    assert not thinning.affords(last=True), "there may be a worker for each epoch"
    thinning.begin(2, 1, 0, (9_000, 600 * S))
    assert thinning.affords()


def test_a_training_tells_its_last_counts_whatever_it_wrote(begun: list[Any]) -> None:
    thinning.begin(None, 1, 0, (9_000, 0))
    assert len(begun) == 1
    assert (thinning.affords(), thinning.affords(last=True)) == (False, True)
