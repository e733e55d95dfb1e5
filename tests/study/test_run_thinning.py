"""What the recorder keeps of a long run, once its room is spent, tells the study the same."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import asdict, replace

from gapless import wire
from gapless.model.recording import Batches, Marks, Process, Recording, Sums
from gapless.model.run import RecordedRun
from gapless.model.trace import Int64
from gapless.payload.log import thinning
from gapless.study import study_recording
from tests.study.recording import MS, Log, recording

LOOK = 100 * MS  # so often the recorder writes
Rows = list[tuple[int, ...]]


def long_run(epochs: int = 7) -> Recording:
    """Return a run of 10 ms a step, 100 an epoch, with two workers, evaluations and checkpoints."""
    log = Log(end=epochs * 1400 + 100)
    log.add_fact("loader", 0, ("train.py", 5), num_workers=2, batch_size=4)
    log.add_fact("loader", 1, ("train.py", 6), num_workers=0, batch_size=4)
    workers = [Log("worker", pid=20 + n, worker=n, loader=0, end=log.end) for n in (0, 1)]
    for epoch in range(epochs):
        begin = epoch * 1400 + 50
        log.add_mark("mode", begin, value=1)
        log.add_mark("iter", begin + 1, begin + 9)
        for position in range(100):
            start = begin + 10 + 10 * position
            wait = 2 + (position * 7 + epoch) % 4  # ms
            log.add_mark("dispatch", start, start + 0.1, value=position << 16 | position % 2)
            log.add_mark("next", start, start + wait, value=position)
            if position % 16 == 3:
                log.add_mark("collector", start + wait + 0.5, start + wait + 1)
            workers[position % 2].add_fetch(
                start + 0.5, start + wait - 0.25, sequence=position // 2, decode=1, cpu=MS
            )
            log.add_mark("step", start + 8, start + 9, value=100 * epoch + position)
        log.add_mark("checkpoint", begin + 1020, begin + 1050)
        log.add_mark("mode", begin + 1060, value=0)
        log.add_mark("iter", begin + 1061, begin + 1062, subject=1)
        for position in range(60):
            start = begin + 1062 + 5 * position
            log.add_mark("next", start, start + 3, value=position, subject=1)
    return recording(log, *workers, ended_ms=log.end)


def thin_process(process: Process, budget: float, rate: float) -> Process:
    """Have the recorder thin what a process recorded, as it would have."""
    marks, batches = (
        sorted(
            zip(*(columns[name].tolist() for name in names), strict=True), key=lambda row: row[5]
        )
        for columns, names in (
            (asdict(process.marks), wire.MARK_FIELDS),
            (process.batches.columns, wire.BATCH_FIELDS),
        )
    )
    room = thinning.Thinning(budget, rate, 0)
    written: list[bytes] = []
    last_ns = max(row[5] for row in (*marks, *batches))
    for now in range(LOOK, last_ns + 2 * LOOK, LOOK):
        mark_rows, batch_rows = (
            [row for row in rows if now - LOOK < row[5] <= now] for rows in (marks, batches)
        )
        written += room.frames(mark_rows, batch_rows, now, last=now > last_ns)
    frames = wire.frames(b"".join(written))[0]
    rows = {
        kind: [
            row for frame in frames if frame.kind == kind for row in layout.iter_unpack(frame.body)
        ]
        for kind, layout in wire.RECORDS.items()
    }
    return replace(
        process,
        marks=Marks(**table(rows[wire.MARKS], wire.MARK_FIELDS)),
        batches=Batches(table(rows[wire.BATCHES], wire.BATCH_FIELDS)),
        mark_sums=Sums(table(rows[wire.MARK_SUMS], wire.MARK_SUM_FIELDS)),
        batch_sums=Sums(table(rows[wire.BATCH_SUMS], wire.BATCH_SUM_FIELDS)),
    )


def table(rows: Sequence[tuple[int, ...]], names: Sequence[str]) -> dict[str, Int64]:
    columns = np.array(rows, np.int64).reshape(-1, len(names))
    return {name: columns[:, index] for index, name in enumerate(names)}


@pytest.fixture
def full_and_thinned(monkeypatch: pytest.MonkeyPatch) -> tuple[RecordedRun, RecordedRun]:
    """Return what the study tells of a whole run, and of the same thinned."""
    monkeypatch.setattr(thinning, "PERIOD_NS", 3000 * MS)
    monkeypatch.setattr(thinning, "STRETCH_NS", 500 * MS)
    full_run = long_run()
    room = {"training": (12_000, 4_500), "worker": (8_000, 2_500)}
    reduced = replace(
        full_run,
        processes=tuple(
            thin_process(process, *room[process.role]) for process in full_run.processes
        ),
    )
    marks = [len(run.processes[0].marks) for run in (full_run, reduced)]
    assert 300 < marks[1] < 0.6 * marks[0]
    results = [study_recording(run).recorded for run in (full_run, reduced)]
    assert results[0] is not None
    assert results[1] is not None
    return results[0], results[1]


def test_the_whole_command_is_the_same(full_and_thinned: tuple[RecordedRun, RecordedRun]) -> None:
    full, reduced = (run.timeline for run in full_and_thinned)
    assert reduced.wall_ns == full.wall_ns
    assert merge_data_leaves(reduced.leaves) == merge_data_leaves(full.leaves)
    assert reduced.leaves["evaluation"] > 500 * MS
    for leaf in ("data.decode", "data.hand-over"):
        assert reduced.leaves[leaf] == pytest.approx(full.leaves[leaf], rel=0.05)


def merge_data_leaves(leaves: Mapping[str, int]) -> dict[str, int]:
    """Add the stages of loading up: how waits are shared out among them depends on the kept."""
    data = sum(ns for leaf, ns in leaves.items() if leaf.startswith("data."))
    return {leaf: ns for leaf, ns in leaves.items() if not leaf.startswith("data.")} | {"": data}


def test_the_steps_are_the_same(full_and_thinned: tuple[RecordedRun, RecordedRun]) -> None:
    full, reduced = (run.steps for run in full_and_thinned)
    assert full is not None
    assert reduced is not None
    for name in ("count", "regular", "mean_ns", "median_ns", "samples_per_s", "anchor"):
        assert getattr(reduced, name) == getattr(full, name), name
    assert reduced.noted < full.noted == full.regular == 699


def test_the_loaders_are_the_same(full_and_thinned: tuple[RecordedRun, RecordedRun]) -> None:
    for reduced, full in zip(full_and_thinned[1].loaders, full_and_thinned[0].loaders, strict=True):
        for name in ("id", "waits", "wait_ns", "share", "longest_ns", "iterations", "restart_ns"):
            assert getattr(reduced, name) == getattr(full, name), name
    reduced, full = (run.loaders[0].workers for run in reversed(full_and_thinned))
    assert reduced is not None
    assert full is not None
    assert replace(reduced, fetch_median_ns=full.fetch_median_ns) == full  # of those that were kept
