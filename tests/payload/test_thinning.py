"""What a process writes in a day is bounded, and each record is kept or in one sum."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless import wire
from gapless.payload.log import sums, thinning
from gapless.payload.log.thinning import PERIOD_NS, RARE_FIRST, STRETCH_NS, Thinning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Mark = tuple[int, ...]
S = 1_000_000_000
MS = 1_000_000


class FrameRecords:
    """The records in some frames."""

    def __init__(self, frames: Iterable[bytes]) -> None:
        decoded, _ = wire.frames(b"".join(frames))
        self.marks: list[Mark] = self._records_of(decoded, wire.MARKS)
        self.batches: list[Mark] = self._records_of(decoded, wire.BATCHES)
        fields = wire.MARK_SUM_FIELDS
        self.mark_sums = [
            dict(zip(fields, record, strict=True))
            for record in self._records_of(decoded, wire.MARK_SUMS)
        ]
        fields = wire.BATCH_SUM_FIELDS
        self.batch_sums = [
            dict(zip(fields, record, strict=True))
            for record in self._records_of(decoded, wire.BATCH_SUMS)
        ]

    @staticmethod
    def _records_of(frames: Sequence[wire.Frame], kind: int) -> list[Mark]:
        layout = wire.RECORDS[kind]
        return [
            record
            for frame in frames
            if frame.kind == kind
            for record in layout.iter_unpack(frame.body)
        ]

    def counts(self) -> Counter[tuple[int, int]]:
        """Count the marks by kind and flags, kept and summed."""
        counts = Counter((record[0], record[1]) for record in self.marks)
        for row in self.mark_sums:
            counts[row["kind"], row["flags"]] += row["count"]
        return counts


def spent_thinning(first_bytes: float = 0, rate: float = 100, now_ns: int = 1) -> Thinning:
    """Return one in which detail has ended until the next period."""
    thinner = Thinning(first_bytes, rate, now_ns)
    thinner.closed_until = PERIOD_NS
    return thinner


def mark(kind: int, start: int, end: int, **fields: int) -> Mark:
    values = {"flags": 0, "subject": 0, "thread": 1, "value": -1} | fields
    return kind, values["flags"], values["subject"], values["thread"], start, end, values["value"]


def batch(start: int, end: int, **fields: int) -> Mark:
    values = {"loader": 0, "worker": 1, "samples": 4, "start": start, "end": end} | fields
    return tuple(values.get(name, -1) for name in wire.BATCH_FIELDS)


# ── Sums against brute force ────────────────────────────────────────────────────────────────────

KINDS = (wire.STEP, wire.NEXT, wire.DISPATCH, wire.SYNC, wire.OBSERVER, wire.DEVICE_STEP)


@st.composite
def draw_marks(draw: st.DrawFn) -> list[Mark]:
    """Draw marks of two threads as they are made: those inside before those around."""
    marks: list[Mark] = []
    for thread in (1, 2):
        now_ns = draw(st.integers(0, 9))
        for _ in range(draw(st.integers(0, 6))):
            now_ns = _draw_tree(draw, marks, thread, now_ns, 3)
    return sorted(marks, key=lambda record: record[5])  # stable: inner ones stay before outer ones


def _draw_tree(draw: st.DrawFn, marks: list[Mark], thread: int, now_ns: int, depth: int) -> int:
    start = now_ns
    now_ns += draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        now_ns = _draw_tree(draw, marks, thread, now_ns, depth - 1) + draw(st.integers(0, 2))
    now_ns += draw(st.integers(0, 5))
    kind = draw(st.sampled_from(KINDS))
    subject = draw(st.integers(0, 1))
    marks.append(mark(kind, start, now_ns, subject=subject, thread=thread, value=0))
    return now_ns + draw(st.integers(0, 3))


def sum_exclusive(marks: Sequence[Mark]) -> Counter[Mark]:
    """Sum the length of marks less that of the charged ones inside, by looking at all pairs."""
    totals: Counter[Mark] = Counter()
    for index, (kind, flags, subject, thread, start, end, _) in enumerate(marks):
        covered: set[int] = set()
        for inner in marks[:index] if kind not in sums.LOOSE else ():
            is_inside = inner[3] == thread and start <= inner[4] and inner[5] <= end
            if is_inside and inner[0] in sums.CHARGED:
                covered.update(range(inner[4], inner[5]))
        totals[kind, flags, subject, thread] += end - start - len(covered)
    return totals


@settings(deadline=None)
@given(draw_marks(), st.lists(st.integers(1, 12), max_size=30))
def test_each_mark_is_counted_once_and_the_totals_are_their_own_time(
    marks: list[Mark], cuts: list[int]
) -> None:
    thinner = spent_thinning()
    frames: list[bytes] = []
    remaining = list(marks)
    for cut in [*cuts, len(marks)]:  # as many flushes
        flushed, remaining = remaining[:cut], remaining[cut:]
        frames += thinner.frames(flushed, [], 2)
    frames += thinner.frames([], [], 3, last=True)
    records = FrameRecords(frames)
    assert records.counts() == Counter((mark[0], mark[1]) for mark in marks)
    kept_marks = Counter(records.marks)
    # A mark that may hold some of before is kept; here only the first of a thread can be.
    expected = sum_exclusive(marks)
    for index, record in enumerate(marks):
        if kept_marks[record]:
            expected.subtract({record[:4]: _own_time(marks, index)})
            kept_marks[record] -= 1
    totals: Counter[Mark] = Counter()
    for row in records.mark_sums:
        totals[row["kind"], row["flags"], row["subject"], row["thread"]] += row["total"]
    assert +totals == +expected
    assert all(row["longest"] >= 0 and row["start"] <= row["end"] for row in records.mark_sums)


def _own_time(marks: Sequence[Mark], index: int) -> int:
    before, outer = marks[:index], marks[index]
    return sum_exclusive([*before, outer])[outer[:4]] - sum_exclusive(before)[outer[:4]]


def test_a_collection_that_is_told_late_is_taken_off_the_wait_around_it() -> None:
    thinner = spent_thinning()
    thinner.rare[wire.COLLECTOR] = (0, 0)  # no longer kept one by one
    frames = thinner.frames([mark(wire.NEXT, 10, 20), mark(wire.STEP, 30, 40)], [], 2)
    frames += thinner.frames([mark(wire.COLLECTOR, 12, 15)], [], 3, last=True)
    totals = {row["kind"]: row["total"] for row in FrameRecords(frames).mark_sums}
    assert totals == {wire.NEXT: 7, wire.STEP: 10, wire.COLLECTOR: 3}


def test_time_on_the_device_is_added_up_and_on_no_threads_account() -> None:
    thinner = spent_thinning()
    marks = [mark(wire.NEXT, 10, 20), mark(wire.DEVICE_STEP, 0, 19, value=7)] * 2
    (wait, device) = FrameRecords(thinner.frames(marks, [], 2, last=True)).mark_sums
    if wait["kind"] != wire.NEXT:
        wait, device = device, wait
    assert (wait["total"], wait["value"]) == (10, -1), "the second call contains the first"
    assert (device["count"], device["total"], device["value"]) == (2, 38, 14)


def test_fetches_are_added_up_and_what_was_not_observed_of_one_is_not_known() -> None:
    thinner = spent_thinning()
    stages = dict.fromkeys(wire.BATCH_FIELDS[14:], 2)
    rows = [
        batch(10, 30, cpu=5, run_queue=1, minor_faults=3, random=1, detailed=1, **stages),
        batch(40, 45, cpu=5, run_queue=-1, minor_faults=3, random=-1, detailed=0),
        batch(50, 60, cpu=5, run_queue=1, minor_faults=3, random=0, detailed=0, loader=1),
    ]
    first_row, second_row = FrameRecords(thinner.frames([], rows, 2, last=True)).batch_sums
    values = {name: first_row[name] for name in ("start", "end", "count", "samples", "wall", "cpu")}
    assert values == {"start": 10, "end": 45, "count": 2, "samples": 8, "wall": 25, "cpu": 10}
    assert (first_row["run_queue"], first_row["minor_faults"], second_row["run_queue"]) == (
        -1,
        6,
        1,
    )
    assert (
        first_row["random"],
        first_row["looked"],
        second_row["random"],
        second_row["looked"],
    ) == (1, 1, 0, 1)
    assert (first_row["detailed"], first_row["detailed_wall"], first_row["detailed_samples"]) == (
        1,
        20,
        4,
    )
    assert {first_row[name] for name in stages} == {2}
    assert second_row["detailed"] == second_row["collate_cpu"] == 0


def test_a_stretch_begins_with_its_first_mark_also_where_a_fetch_came_before() -> None:
    thinner = spent_thinning()
    frames = thinner.frames([], [batch(10, 30)], 2)
    frames += thinner.frames([mark(wire.NEXT, 31, 35)], [], 3, last=True)
    (row,) = FrameRecords(frames).mark_sums
    assert (row["start"], row["end"]) == (31, 35)


def test_subjects_without_end_do_not_make_rows_without_end() -> None:
    thinner = spent_thinning()
    marks = [mark(wire.SYNC, n, n + 1, subject=n, thread=n) for n in range(10_000)]
    rows = FrameRecords(thinner.frames(marks, [], 2, last=True)).mark_sums
    assert len(rows) == sums.MAX_ROWS + 1
    assert sum(row["count"] for row in rows) == 10_000
    last_row = rows[-1]
    assert (last_row["subject"], last_row["thread"]) == (wire.NOBODY, -1)


# ── When ────────────────────────────────────────────────────────────────────────────────────────


def simulate_steps(length: int, until_ns: int, thinner: Thinning) -> tuple[FrameRecords, int]:
    """Step for so long, flushing each tenth of a second; give what was written, and its bytes."""
    written: list[bytes] = []
    pending: list[Mark] = []
    flushed_ns = now_ns = 0
    while now_ns < until_ns:
        pending += [
            mark(wire.DISPATCH, now_ns, now_ns + length // 10),
            mark(wire.NEXT, now_ns, now_ns + length // 5),
            mark(wire.STEP, now_ns + length // 2, now_ns + length),
            mark(wire.DEVICE_STEP, now_ns, now_ns + length, value=length),
        ]
        now_ns += length
        if now_ns - flushed_ns >= S // 10:
            flushed_ns = now_ns
            written += thinner.frames(pending, [], now_ns)
            pending = [mark(wire.OBSERVER, now_ns, now_ns, value=wire.OBSERVER_FLUSH)]
    written += thinner.frames(pending, [], now_ns, last=True)
    return FrameRecords(written), sum(map(len, written))


@pytest.mark.parametrize(
    ("length", "until"),
    [(MS, 160 * S), (10 * MS, 600 * S), (100 * MS, 2000 * S), (S, 2000 * S)],
)
def test_what_is_written_stays_within_room_whatever_the_length_of_a_step(
    length: int, until: int
) -> None:
    thinner = Thinning(10_000, 300, 0)
    records, size = simulate_steps(length, until, thinner)
    assert size <= 10_000 + 1.05 * 300 * until / S
    n_steps = sum(record[0] == wire.STEP for record in records.marks)
    n_summed = sum(row["count"] for row in records.mark_sums if row["kind"] == wire.STEP)
    assert n_steps + n_summed == until // length
    assert n_steps >= 20 * (until // (4 * PERIOD_NS) + 1), "some are kept"
    assert size >= min(0.5 * 300 * until / S, 44 * 4 * until // length), "room is used"


def test_detail_begins_again_at_instants_that_all_processes_share() -> None:
    records, _ = simulate_steps(10 * MS, 300 * S, Thinning(5_000, 300, 0))
    ends = sorted(record[5] for record in records.marks if record[0] == wire.STEP)
    resumed = [after for before, after in pairwise(ends) if after - before > S]
    assert len(resumed) >= 3
    assert all((start_ns + S // 5) % PERIOD_NS < S // 2 for start_ns in resumed)


def test_stretches_follow_one_another_and_records() -> None:
    records, _ = simulate_steps(10 * MS, 200 * S, Thinning(5_000, 300, 0))
    spans = sorted({(row["start"], row["end"]) for row in records.mark_sums})
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    kept_ends = sorted(record[5] for record in records.marks if record[0] != wire.DEVICE_STEP)
    assert not any(start < end < stop for start, stop in spans for end in kept_ends)
    lengths = [stop - start for start, stop in spans]
    assert sum(length >= STRETCH_NS * 0.95 for length in lengths) > 0.8 * len(lengths)


def test_rare_marks_are_kept_one_by_one_while_they_are_rare() -> None:
    thinner = spent_thinning(rate=1e9)
    n_marks = 2 * RARE_FIRST
    frames: list[bytes] = []
    for index in range(n_marks):
        marks = [mark(wire.LOGGING, 10 * index, 10 * index + 5), mark(wire.ITER, index, index)][
            : 1 + (index < 9)
        ]
        frames += thinner.frames(marks, [], 2)
    window = mark(wire.OBSERVER, 10 * n_marks, 10 * n_marks + 1, value=wire.OBSERVER_WINDOW)
    exhausted = mark(wire.NEXT, 10 * n_marks + 1, 10 * n_marks + 2, flags=wire.EXHAUSTED)
    records = FrameRecords([*frames, *thinner.frames([window, exhausted], [], 3, last=True)])
    kept_counts = Counter(record[0] for record in records.marks)
    assert kept_counts == {wire.LOGGING: RARE_FIRST, wire.ITER: 9, wire.OBSERVER: 1, wire.NEXT: 1}
    assert records.counts()[wire.LOGGING, 0] == n_marks


def test_no_sum_is_of_training_and_evaluation_alike() -> None:
    thinner = spent_thinning()
    steps = [mark(wire.STEP, n, n + 1) for n in range(6)]
    modes = [mark(wire.MODE, 3, 3, value=0)]
    records = FrameRecords(thinner.frames([*steps[:3], *modes, *steps[3:]], [], 2, last=True))
    assert [(row["start"], row["end"], row["count"]) for row in records.mark_sums] == [
        (0, 3, 3),
        (3, 6, 3),
    ]
    assert records.marks == modes


def test_a_mark_that_began_before_the_stretch_is_kept() -> None:
    thinner = Thinning(1_000, 1, 1)
    step = mark(wire.STEP, 10, 20)
    pin = mark(wire.PIN, 15, 30, thread=2)
    frames = thinner.frames([step], [], 2)
    thinner.closed_until = PERIOD_NS
    frames += thinner.frames([pin, mark(wire.NEXT, 21, 25)], [], 3, last=True)
    records = FrameRecords(frames)
    assert records.marks == [step, pin]
    (row,) = records.mark_sums
    assert (row["kind"], row["start"], row["end"]) == (wire.NEXT, 20, 30)


def test_a_mark_around_more_than_is_remembered_is_kept() -> None:
    thinner = spent_thinning()
    thinner.rare[wire.ITER] = (0, 0)
    waits = [mark(wire.NEXT, 2 * n + 1, 2 * n + 2) for n in range(2 * sums.MAX_THREAD_MARKS)]
    outer, later = mark(wire.ITER, 1, 9_999), mark(wire.ITER, 2 * sums.MAX_THREAD_MARKS + 3, 9_998)
    records = FrameRecords(
        [*thinner.frames(waits, [], 2), *thinner.frames([later, outer], [], 3, last=True)]
    )
    assert records.marks == [outer]
    totals = {row["kind"]: row["total"] for row in records.mark_sums}
    n_inside = sum(start >= later[4] for _, _, _, _, start, *_ in waits)
    assert totals[wire.ITER] == later[5] - later[4] - n_inside


def test_a_window_of_ours_lies_in_full_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    thinner = spent_thinning()
    monkeypatch.setattr(thinning._budget, "thinning", thinner)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    step = [mark(wire.STEP, n, n + 1) for n in range(4)]
    frames = thinning.frames([], step[:1], [], 2)
    thinning.hold()
    frames += thinning.frames([], step[1:2], [], 3)
    thinning.release()
    frames += thinning.frames([], step[2:3], [], 4)
    frames += thinning.frames([], step[3:], [], 5, last=True)
    records = FrameRecords(frames)
    assert records.marks == step[1:3]
    assert [(row["start"], row["end"]) for row in records.mark_sums] == [(0, 1), (3, 4)]


# ── How much ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a part that is private
    budget = thinning._budget  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(budget, "thinning", None)
    return budget


def test_a_worker_has_a_share(budget: Any) -> None:  # noqa: ANN401
    thinning.begin(None, 1, None, (0, 0))
    training = budget.thinning
    thinning.begin(4, 1, None, (0, 0))
    worker = budget.thinning
    assert (training.room, training.rate) == (thinning.FIRST_BYTES, thinning.BYTES_PER_S)
    assert 4 * worker.room == pytest.approx(thinning.WORKERS_FIRST_BYTES)
    assert 4 * worker.rate == thinning.WORKERS_BYTES_PER_S
    thinning.begin(4, 1, thinning.FIRST_BYTES / 2, (0, 0))
    assert budget.thinning.room == pytest.approx(worker.room / 2), "the allowance that is asked for"


def test_what_predecessors_wrote_counts(budget: Any) -> None:  # noqa: ANN401
    thinning.begin(2, 1, 0, (90_000, 600 * S))
    assert budget.thinning.room == 60 * 600 - 90_000
    assert not thinning.affords()
    assert not thinning.affords(last=True), "there may be a worker for each epoch"
    thinning.begin(2, 1, 0, (9_000, 600 * S))
    assert thinning.affords()


def test_a_training_tells_its_last_counts_whatever_it_wrote(budget: Any) -> None:  # noqa: ANN401
    thinning.begin(None, 1, 0, (9_000, 0))
    assert budget.thinning is not None
    assert (thinning.affords(), thinning.affords(last=True)) == (False, True)
