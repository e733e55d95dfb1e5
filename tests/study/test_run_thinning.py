"""What the recorder keeps of a long run, once its room is spent, tells the study the same."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from gapless import wire
from gapless.model.recording import Batches, Marks, Process, Recording, Sums
from gapless.model.run import Recorded
from gapless.model.trace import Int64
from gapless.payload import thinning
from gapless.study import study_recording
from tests.study.recording import MS, Log, recording

LOOK = 100 * MS  # so often the recorder writes
Rows = list[tuple[int, ...]]


def long_run(epochs: int = 7) -> Recording:
    """Give a run of 10 ms a step, 100 an epoch, with two workers, evaluations and checkpoints."""
    log = Log(end=epochs * 1400 + 100)
    log.fact("loader", 0, ("train.py", 5), num_workers=2, batch_size=4)
    log.fact("loader", 1, ("train.py", 6), num_workers=0, batch_size=4)
    workers = [Log("worker", pid=20 + n, worker=n, loader=0, end=log.end) for n in (0, 1)]
    for epoch in range(epochs):
        begin = epoch * 1400 + 50
        log.mark("mode", begin, value=1)
        log.mark("iter", begin + 1, begin + 9)
        for position in range(100):
            at = begin + 10 + 10 * position
            wait = 2 + (position * 7 + epoch) % 4  # ms
            log.mark("dispatch", at, at + 0.1, value=position << 16 | position % 2)
            log.mark("next", at, at + wait, value=position)
            if position % 16 == 3:
                log.mark("collector", at + wait + 0.5, at + wait + 1)
            workers[position % 2].fetch(
                at + 0.5, at + wait - 0.25, sequence=position // 2, decode=1, cpu=MS
            )
            log.mark("step", at + 8, at + 9, value=100 * epoch + position)
        log.mark("checkpoint", begin + 1020, begin + 1050)
        log.mark("mode", begin + 1060, value=0)
        log.mark("iter", begin + 1061, begin + 1062, subject=1)
        for position in range(60):
            at = begin + 1062 + 5 * position
            log.mark("next", at, at + 3, value=position, subject=1)
    return recording(log, *workers, ended=log.end)


def thinned(process: Process, first: float, rate: float) -> Process:
    """Have the recorder thin what a process recorded, as it would have."""
    marks, batches = (
        sorted(
            zip(*(columns[name].tolist() for name in names), strict=True), key=lambda row: row[5]
        )
        for columns, names in (
            (vars(process.marks), wire.MARK_FIELDS),
            (process.batches.columns, wire.BATCH_FIELDS),
        )
    )
    room = thinning.Thinning(first, rate, 0)
    written: list[bytes] = []
    last = max(row[5] for row in (*marks, *batches))
    for now in range(LOOK, last + 2 * LOOK, LOOK):
        one, other = (
            [row for row in rows if now - LOOK < row[5] <= now] for rows in (marks, batches)
        )
        written += room.frames(one, other, now, last=now > last)
    found = wire.frames(b"".join(written))[0]
    rows = {
        kind: [row for one in found if one.kind == kind for row in layout.iter_unpack(one.body)]
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
    return {name: columns[:, at] for at, name in enumerate(names)}


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[Recorded, Recorded]:
    """Give what the study tells of a whole run, and of the same thinned."""
    monkeypatch.setattr(thinning, "PERIOD_NS", 3000 * MS)
    monkeypatch.setattr(thinning, "STRETCH_NS", 500 * MS)
    whole = long_run()
    room = {"training": (12_000, 4_500), "worker": (8_000, 2_500)}
    part = replace(whole, processes=tuple(thinned(one, *room[one.role]) for one in whole.processes))
    marks = [len(one.processes[0].marks) for one in (whole, part)]
    assert 300 < marks[1] < 0.6 * marks[0]
    found = [study_recording(one).recorded for one in (whole, part)]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


def test_the_whole_command_is_the_same(both: tuple[Recorded, Recorded]) -> None:
    whole, part = (one.timeline for one in both)
    assert part.wall_ns == whole.wall_ns
    assert grouped(part.leaves) == grouped(whole.leaves)
    assert part.leaves["evaluation"] > 500 * MS
    for leaf in ("data.decode", "data.hand-over"):
        assert part.leaves[leaf] == pytest.approx(whole.leaves[leaf], rel=0.05)


def grouped(leaves: Mapping[str, int]) -> dict[str, int]:
    """Add the stages of loading up: how waits are shared out among them depends on the kept."""
    data = sum(ns for leaf, ns in leaves.items() if leaf.startswith("data."))
    return {leaf: ns for leaf, ns in leaves.items() if not leaf.startswith("data.")} | {"": data}


def test_the_steps_are_the_same(both: tuple[Recorded, Recorded]) -> None:
    whole, part = (one.steps for one in both)
    assert whole is not None
    assert part is not None
    for name in ("count", "regular", "mean_ns", "median_ns", "samples_per_s", "anchor"):
        assert getattr(part, name) == getattr(whole, name), name
    assert part.noted < whole.noted == whole.regular == 699


def test_the_loaders_are_the_same(both: tuple[Recorded, Recorded]) -> None:
    for part, whole in zip(both[1].loaders, both[0].loaders, strict=True):
        for name in ("id", "waits", "wait_ns", "share", "longest_ns", "iterations", "restart_ns"):
            assert getattr(part, name) == getattr(whole, name), name
    part, whole = (one.loaders[0].workers for one in reversed(both))
    assert part is not None
    assert whole is not None
    assert replace(part, fetch_median_ns=whole.fetch_median_ns) == whole  # of those that were kept
