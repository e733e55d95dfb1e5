"""Logs that are followed while they grow, and what is known of a run by them."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from gapless import wire
from gapless.errors import RunFolderError
from gapless.live import watching
from gapless.live.activity import Activity, ActivityMeter
from gapless.live.log_tail import LogTail
from gapless.live.pauses import Pause
from gapless.live.run_tail import GONE
from gapless.live.view import LiveView, RunView
from gapless.live.watching import RunWatcher
from tests.live.growing import MS, STEP_NS, GrowingRun
from tests.store import drawing


def steps_of(tail: LogTail) -> list[int]:
    """Return the numbers of the steps that a tail holds."""
    bodies = [body for kind, body in tail.make_log().frames if kind == wire.MARKS]
    return [record[6] for body in bodies for record in wire.MARK.iter_unpack(body)]


def test_what_is_new_is_read_once_and_half_a_frame_waits(tmp_path: Path) -> None:
    path, tail = tmp_path / "rank0.log", LogTail("rank0.log")
    whole, cut = drawing.marks(drawing.step(0, 1, 2)), drawing.marks(drawing.step(1, 3, 4))
    path.write_bytes(drawing.process() + whole + cut[:-5])
    tail.follow(path)
    tail.follow(path)
    assert steps_of(tail) == [0]
    with path.open("ab") as log:
        log.write(cut[-5:] + drawing.marks(drawing.step(2, 5, 6)))
    tail.follow(path)
    assert steps_of(tail) == [0, 1, 2]
    assert tail.newest_ns == 6


def test_a_damaged_stretch_is_skipped(tmp_path: Path) -> None:
    path, tail = tmp_path / "rank0.log", LogTail("rank0.log")
    cut = drawing.marks(drawing.step(0, 1, 2))[:-9]  # what a full disk leaves
    path.write_bytes(drawing.process() + cut + drawing.marks(drawing.step(1, 3, 4)))
    tail.follow(path)
    assert steps_of(tail) == [1]


def test_a_log_that_became_shorter_is_read_anew(tmp_path: Path) -> None:
    path, tail = tmp_path / "rank0.log", LogTail("rank0.log")
    path.write_bytes(
        drawing.process() + drawing.marks(drawing.step(0, 1, 2), drawing.step(1, 3, 4))
    )
    tail.follow(path)
    path.write_bytes(drawing.process() + drawing.marks(drawing.step(7, 1, 2)))
    tail.follow(path)
    assert steps_of(tail) == [7]


def test_old_records_are_forgotten_and_facts_stay(tmp_path: Path) -> None:
    path, tail = tmp_path / "rank0.log", LogTail("rank0.log")
    steps = [drawing.marks(drawing.step(number, number, number + 1)) for number in range(50)]
    path.write_bytes(drawing.process() + drawing.fact("loader", 0, num_workers=2) + b"".join(steps))
    tail.follow(path)
    tail.forget_before(40, min_records=3)
    assert steps_of(tail) == list(range(39, 50))
    tail.forget_before(1000, min_records=3)
    assert steps_of(tail) == [47, 48, 49]
    assert [kind for kind, _ in tail.make_log().frames][:2] == [wire.PROCESS, wire.FACT]


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_bytes(wire.HEADER.pack(wire.MAGIC, wire.MARKS, wire.VERSION + 1, 0, 0))
    with pytest.raises(RunFolderError, match="Upgrade gapless to watch it"):
        LogTail("rank0.log").follow(path)


def look(watcher: RunWatcher) -> tuple[LiveView, RunView]:
    """Study and look, as the screen does."""
    watcher.study_when_due()
    view = watcher.look()
    assert view.run is not None
    return view, view.run


@pytest.fixture
def growing(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path / "2026-run")
    run.begin()
    return run


def test_before_the_first_step_it_says_so(growing: GrowingRun) -> None:
    _, run = look(RunWatcher(growing.folder))
    assert (run.status, run.steps, run.recent, run.account) == ("running", None, None, None)
    assert run.cause is not None
    assert run.cause.startswith("no ")


def test_a_run_is_seen_to_grow(growing: GrowingRun) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    _, run = look(watcher)
    assert run.steps == 60
    assert run.recent is not None
    assert run.recent.median_ns == STEP_NS
    assert run.recent.samples_per_s == pytest.approx(4 / (STEP_NS / 1e9))
    assert run.cause is not None
    assert "75 % of each step the training thread waits for data" in run.cause
    account = run.recent_account
    assert account is not None
    assert sum(account.leaves.values()) == sum(account.groups.values()) == account.wall_ns
    assert account.groups["data"] == pytest.approx(0.75 * account.wall_ns, rel=0.01)
    (loader,) = run.loaders
    assert (loader.ready, loader.capacity) == (1, 4)
    assert [worker.worker for worker in loader.workers] == [0, 1]
    assert loader.workers[0].fetch_ns == 70 * MS
    assert loader.workers[0].stages == {
        "decode": pytest.approx(6 / 7),
        "collate": pytest.approx(1 / 7),
    }
    growing.grow(10)
    assert look(watcher)[1].steps == 70


def test_the_first_window_is_studied_at_once(growing: GrowingRun) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    assert not watcher.study_when_due()
    now_ns = time.monotonic_ns()
    window = {"start": now_ns - 2 * STEP_NS, "end": now_ns, "first_step": 58, "last_step": 59}
    for number, is_due in ((0, True), (1, False)):
        growing.tell(wire.WINDOW, {"number": number, "path": "windows/none.json"} | window)
        watcher.look()
        assert watcher.study_when_due() is is_due


def test_who_asked_for_no_windows_is_told_so(tmp_path: Path) -> None:
    code = "import time; time.sleep(60)"
    options = {**os.environ, wire.OPTIONS: json.dumps({"windows": False})}
    with subprocess.Popen([sys.executable, "-c", code], env=options) as process:
        try:
            growing = GrowingRun(tmp_path / "2026-run", pid=process.pid)
            growing.begin()
            growing.grow(60)
            _, run = look(RunWatcher(growing.folder))
        finally:
            process.kill()
    assert run.no_windows == "the run was started with --no-windows"


def test_what_cannot_be_computed_is_said_and_the_rest_is_shown(
    growing: GrowingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    broken = Mock(side_effect=AssertionError("12 is not 13"))
    monkeypatch.setattr(watching, "open_run", broken)
    monkeypatch.setattr(watching, "study_recent", broken)
    monkeypatch.setattr(Pause, "is_due", Mock(return_value=True))
    _, run = look(watcher)
    assert run.steps == 60
    assert run.recent is not None
    assert run.notes == (
        "the whole run cannot be studied: AssertionError: 12 is not 13",
        "the latest steps cannot be charged: AssertionError: 12 is not 13",
    )


def test_a_stall_is_the_present_cause(growing: GrowingRun) -> None:
    until_ns = time.monotonic_ns() - 20 * 10**9
    growing.grow(60, until_ns=until_ns)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    _, run = look(watcher)
    assert run.cause is not None
    assert re.match(r"no step has ended for \d\d s: its main thread ", run.cause)
    assert run.behind_ns == pytest.approx(time.monotonic_ns() - until_ns, rel=0.1)


def test_what_keeps_it_from_its_processors_and_gpus_is_said(
    growing: GrowingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    activity = Activity("R", 0.2, 0.7, None)
    monkeypatch.setattr(ActivityMeter, "look", Mock(return_value=activity))
    figures = {"cpu.foreign": 150.0, "gpu0.throttle": 32.0, "gpu1.throttle": 4.0}
    monkeypatch.setattr(RunWatcher, "_figures", Mock(return_value=figures))
    cause = look(watcher)[1].cause
    assert cause is not None
    assert cause.endswith(
        "; the main thread waits 70 % of the time for a processor, of which others use 1.5; "
        "the clock of gpu0 is held back by heat"
    )


def test_a_run_that_ends_stays_as_it_was(growing: GrowingRun) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    growing.end()
    look(watcher)
    view, run = look(watcher)
    assert (run.status, run.exit_code, run.steps) == ("finished", 0, 60)
    assert run.account is not None
    assert run.loaders == ()
    assert watcher.look() is view
    shutil.rmtree(growing.folder)
    assert watcher.look() is view


def test_a_manifest_that_is_lost_is_remembered(growing: GrowingRun) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    (growing.folder / "run.json").unlink()
    growing.grow(5)
    _, run = look(watcher)
    assert (run.status, run.steps, run.command) == ("running", 65, ("python", "train.py"))


def test_a_folder_that_disappears_leaves_what_was_seen(growing: GrowingRun) -> None:
    growing.grow(60)
    watcher = RunWatcher(growing.folder)
    look(watcher)
    shutil.rmtree(growing.folder)
    _, run = look(watcher)
    assert run.status == GONE
    assert run.steps == 60
    assert run.notes == ("the run folder is gone: this is what was there last",)
    assert run.account is not None


def test_loaders_that_are_made_anew_are_one(growing: GrowingRun) -> None:
    growing.grow(60)
    begin_ns = time.monotonic_ns()
    second_loader = drawing.fact("loader", 1, batch_size=4, num_workers=2, prefetch_factor=2)
    fact = json.loads(wire.frames(second_loader)[0][0].body) | {"line": 10}
    with (growing.folder / "logs" / "rank0.log").open("ab") as log:
        log.write(wire.text_frame(wire.FACT, fact))
        log.write(drawing.marks((wire.ITER, 0, 1, 11, begin_ns - 9, begin_ns - 8, 1)))
        log.write(drawing.marks((wire.NEXT, 0, 1, 11, begin_ns - 7, begin_ns, 0)))
    (loader,) = look(RunWatcher(growing.folder))[1].loaders
    assert (loader.id, loader.workers, loader.num_workers, loader.ready) == (1, (), 2, None)


def test_batches_are_not_counted_where_fetches_are_summed_up(growing: GrowingRun) -> None:
    growing.grow(60)
    now_ns = time.monotonic_ns()
    log = growing.folder / "logs" / "rank0.log"
    sums = [
        (kind, 0, 0, 11, now_ns - 40 * MS, now_ns, 5, 30 * MS, 9 * MS, -1)
        for kind in (wire.NEXT, wire.STEP)
    ]
    with log.open("ab") as file:
        file.write(drawing.mark_sums(*sums))
    (loader,) = look(RunWatcher(growing.folder))[1].loaders
    assert (loader.ready, loader.capacity) == (None, 4)


def test_several_ranks_are_told_apart(growing: GrowingRun) -> None:
    growing.grow(60)
    log = growing.folder / "logs" / "rank0.log"
    frames, _ = wire.frames(log.read_bytes())
    head = frames[0].text() | {"rank": 1, "world": 2, "pid": growing.pid + 9}
    body = b"".join(wire.frame(frame.kind, frame.body) for frame in frames[1:])
    (log.parent / "rank1.log").write_bytes(wire.text_frame(wire.PROCESS, head) + body)
    _, run = look(RunWatcher(growing.folder))
    assert [(rank.rank, rank.steps) for rank in run.ranks] == [(0, 60), (1, 60)]
    assert run.ranks[1].wait_share == pytest.approx(0.75, rel=0.01)
