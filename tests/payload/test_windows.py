"""Windows of torch's profiler in a training that knows nothing of them."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gapless import wire
from gapless.accounting import partition
from gapless.accounting.clock import clock_ranges, match_clocks
from gapless.formats import read
from gapless.model.trace import Trace
from gapless.payload import windows
from gapless.payload.windows import session
from tests import preloaded

TRAINING = Path(__file__).with_name("train_with_windows.py")
FIRST_STEP, LAST_STEP = (
    13,
    18,
)  # steps of the first window of several ranks, which open theirs by number


@dataclass(frozen=True)
class Run:
    """What a training left behind."""

    spool: Path
    code: int
    results: dict[str, Any]
    frames: list[wire.Frame]

    def texts(self, kind: int) -> list[dict[str, Any]]:
        return [frame.text() for frame in self.frames if frame.kind == kind]

    def windows(self) -> list[dict[str, Any]]:
        """Return the last frame of each window."""
        return list({window["number"]: window for window in self.texts(wire.WINDOW)}.values())

    def trace(self, window: dict[str, Any]) -> Trace:
        return read(str(self.spool / window["path"]))

    def files(self) -> list[str]:
        """Return the names of the files; a child may outlive the training, so wait for it."""
        folder, deadline = self.spool / "windows", time.monotonic() + 20
        while list(folder.glob("*.part*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        return sorted(path.name for path in folder.glob("*"))


def train(folder: Path, steps: int, *wishes: str, world: int = 2, **options: object) -> Run:
    """Train so many steps; without noise: several ranks open their windows by number."""
    environment = {
        **os.environ,
        wire.SPOOL: str(folder),
        wire.OPTIONS: json.dumps({"any_cost": True, **options}),
        "KINETO_LOG_LEVEL": "99",
        "WORLD_SIZE": str(world),
        "RANK": "0",
    }
    completed = preloaded.run([str(TRAINING), str(steps), *wishes], Path.cwd(), environment)
    assert completed.err == ""
    log = folder / "rank0.log"
    frames = wire.frames(log.read_bytes())[0] if log.exists() else []
    return Run(folder, completed.code, json.loads(completed.out or "{}"), frames)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("spool"), 40, f"wait={LAST_STEP}", save="child")


def test_the_first_window_holds_six_whole_steps(run: Run) -> None:
    first_window, *_ = run.windows()
    assert (first_window["first_step"], first_window["last_step"], first_window["stacks"]) == (
        FIRST_STEP,
        LAST_STEP,
        False,
    )
    partitioned = partition(run.trace(first_window))
    assert (len(partitioned.rows), partitioned.step_rule) == (6, "gapless:step")


def test_a_short_window_with_stacks_follows_once(run: Run) -> None:
    stacks = [window for window in run.windows() if window["stacks"]]
    assert [window["last_step"] - window["first_step"] + 1 for window in stacks] == [3]
    names = run.trace(stacks[0]).names
    assert any(name.startswith(f"{TRAINING.name}(") or TRAINING.name in name for name in names)


def test_the_files_are_whole_and_nothing_else_lies_there(run: Run) -> None:
    assert run.files() == ["rank0-step13.json", "rank0-step31-stacks.json"]
    assert [window["path"] for window in run.windows()] == [
        f"windows/{name}" for name in run.files()
    ]


def test_the_file_itself_says_which_window_it_is(run: Run) -> None:
    first_window, *_ = run.windows()
    header = json.loads((run.spool / first_window["path"]).read_text())["gapless"]
    assert (header["number"], header["first_step"], header["last_step"]) == (
        1,
        FIRST_STEP,
        LAST_STEP,
    )
    assert header["readings"] == first_window["readings"]


def test_marks_and_kineto_share_one_axis_within_the_error(run: Run) -> None:
    first_window, *_ = run.windows()
    trace = run.trace(first_window)
    ranges = clock_ranges(trace)
    assert ranges is not None
    clock_match = match_clocks(ranges, first_window["readings"])
    assert clock_match is not None
    offset, error = clock_match
    assert error < 1_000_000
    start = ranges.steps[0] - offset
    assert first_window["readings"][0][-1][1] - error <= start <= first_window["start"] + error


def test_ranges_show_only_in_windows(run: Run) -> None:
    first_window, *_ = run.windows()
    trace = run.trace(first_window)
    iteration_ranges = [
        name for name in trace.events.name.tolist() if trace.names[name] == "gapless:iter"
    ]
    assert len(iteration_ranges) == 6


def test_what_windows_cost_is_marked_as_ours(run: Run) -> None:
    marks = [
        record
        for frame in run.frames
        if frame.kind == wire.MARKS
        for record in wire.MARK.iter_unpack(frame.body)
    ]
    window_marks = [
        mark for mark in marks if (mark[0], mark[6]) == (wire.OBSERVER, wire.OBSERVER_WINDOW)
    ]
    stop = run.windows()[0]["stop_ns"]
    assert len(window_marks) >= 6  # the probe, the window, the stacks: each was opened and closed
    assert any(mark[5] - mark[4] >= stop for mark in window_marks)


def test_the_training_does_not_see_who_saves(run: Run) -> None:
    assert run.results["waits"] == []
    assert run.results["signals"] == 0


def test_the_training_is_left_as_it_was(run: Run, tmp_path: Path) -> None:
    plain = train(tmp_path, 40, "plain")
    results = {key: run.results[key] for key in plain.results}
    assert results == plain.results


def test_one_process_waits_for_steady_steps(tmp_path: Path) -> None:
    run = train(tmp_path, 60, world=1, most_windows=1)
    first_window, *_ = run.windows()
    assert 3 < first_window["first_step"] <= 24  # early, if a busy machine held the first ones up
    assert [window["discarded"] for window in run.windows()] == [None, None]


def test_the_steps_of_a_window_are_kept_though_there_is_no_room(tmp_path: Path) -> None:
    run = train(tmp_path, 60, allowance=0)
    layout = wire.RECORDS
    marks, sums = (
        [
            record
            for frame in run.frames
            if frame.kind == kind
            for record in layout[kind].iter_unpack(frame.body)
        ]
        for kind in (wire.MARKS, wire.MARK_SUMS)
    )
    ends = [record[5] for record in marks if record[0] == wire.STEP]
    assert len(ends) + sum(record[6] for record in sums if record[0] == wire.STEP) == 60
    for window in run.windows():
        inside = sum(window["start"] <= end <= window["end"] for end in ends)
        assert inside == window["last_step"] - window["first_step"] + 1
        assert not any(record[4] < window["end"] and record[5] > window["start"] for record in sums)
    assert len(ends) < 60


def test_threads_that_want_pythons_lock_do_not_stop_the_child(tmp_path: Path) -> None:
    run = train(tmp_path, 36, "threads=17", "wait=34", save="child")
    assert run.files() == ["rank0-step13.json", "rank0-step31-stacks.json"]
    assert run.texts(wire.UNOBSERVED) == []


def test_a_child_that_hangs_is_ended_and_the_training_saves(tmp_path: Path) -> None:
    run = train(tmp_path, 40, "hang=10", f"wait={LAST_STEP}", save="child")
    assert [window["discarded"] for window in run.windows()] == [None, None]
    assert run.files() == ["rank0-step13.json", "rank0-step31-stacks.json"]
    assert [note["what"] for note in run.texts(wire.UNOBSERVED)] == ["saving beside the training"]


def test_a_fork_cuts_a_window(tmp_path: Path) -> None:
    run = train(tmp_path, 30, "fork=17")
    first_window, *_ = run.windows()
    assert (first_window["first_step"], first_window["last_step"], first_window["discarded"]) == (
        FIRST_STEP,
        17,
        None,
    )
    assert run.results["child"] == 0  # and records nothing itself


def test_a_fork_discards_a_window_of_few_steps(tmp_path: Path) -> None:
    run = train(tmp_path, 30, "fork=14")
    first_window, *_ = run.windows()
    assert (first_window["path"], first_window["discarded"]) == (None, "the process forked")


def test_the_users_profiler_goes_first(tmp_path: Path) -> None:
    run = train(tmp_path, 60, "profile=16")
    assert run.results["user's events"] > 0
    assert run.files() == []
    assert [window["discarded"] for window in run.windows()] == [
        "the training started its own profiler"
    ]
    assert "the training has its own profiler" in [
        note["why"] for note in run.texts(wire.UNOBSERVED)
    ]


def test_a_window_that_lasts_too_long_is_cut(tmp_path: Path) -> None:
    run = train(tmp_path, 22, "overdue=16")
    first_window, *_ = run.windows()
    assert (first_window["last_step"], first_window["discarded"]) == (16, None)


def test_a_window_that_lasts_too_long_for_a_few_steps_is_discarded(tmp_path: Path) -> None:
    run = train(tmp_path, 22, "overdue=13")
    assert [window["discarded"] for window in run.windows()] == ["it lasted too long"]


def test_a_profile_function_is_left_alone(tmp_path: Path) -> None:
    run = train(tmp_path, 40, "setprofile=2")
    assert run.files() == ["rank0-step13.json"]
    assert [note["why"] for note in run.texts(wire.UNOBSERVED)] == [
        "the training has a profile function"
    ]


def test_a_check_ends_after_the_first_windows(tmp_path: Path) -> None:
    run = train(tmp_path, 10_000, check=True)
    assert run.code == 0
    assert run.results == {}  # it never came to its end
    assert run.files() == ["rank0-step13.json", "rank0-step31-stacks.json"]
    assert [end["how"] for end in run.texts(wire.END)] == ["check"]


def test_a_check_of_one_process_goes_on_until_stacks_tell_something(tmp_path: Path) -> None:
    start_ns = time.monotonic_ns()
    run = train(tmp_path, 10_000_000, world=1, check=True)
    assert (run.code, run.results) == (0, {})
    assert time.monotonic_ns() - start_ns > session.CHECK_NS
    assert [end["how"] for end in run.texts(wire.END)] == ["check"]


def test_a_check_without_windows_ends_too(tmp_path: Path) -> None:
    run = train(tmp_path, 10_000, check=True, windows=False)
    assert (run.code, run.files()) == (0, [])
    assert [end["how"] for end in run.texts(wire.END)] == ["check"]


def test_a_spool_that_vanished_costs_a_window_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "windows").write_text("a file where a folder should be")
    run = train(tmp_path, 40)
    assert run.code == 0
    assert run.windows() == []
    assert run.texts(wire.UNOBSERVED)


def test_a_spool_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    spool = tmp_path / "removed"
    assert train(spool, 40).code == 0
    assert not spool.exists()


@pytest.mark.parametrize("leaves", ["over", "quit=16"])
def test_a_window_that_is_open_at_the_end_is_kept_as_far_as_it_got(
    tmp_path: Path, leaves: str
) -> None:
    run = train(tmp_path, 17, leaves)
    (window,) = run.windows()
    assert (window["first_step"], window["last_step"], window["discarded"]) == (
        FIRST_STEP,
        16,
        None,
    )
    assert run.files() == ["rank0-step13.json"]
    assert len(partition(run.trace(window)).rows) == 4
    assert run.code == (0 if leaves == "over" else 3)


@pytest.mark.parametrize(("slow", "is_kept"), [("brisk=0", False), ("nap=12", True)])
def test_one_step_of_a_window_is_kept_if_it_was_long(
    tmp_path: Path, slow: str, is_kept: bool
) -> None:
    run = train(tmp_path, 14, "over", slow)
    (window,) = run.windows()
    assert (window["discarded"] is None) == is_kept


def test_nothing_but_logs_and_windows_and_the_plan_lies_in_the_spool(tmp_path: Path) -> None:
    train(tmp_path, 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan", "rank0.log", "windows"]
    assert all(path.is_symlink() for path in (tmp_path / "plan").iterdir())


def test_windows_may_end_while_another_thread_asks_whether_one_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ending:
        sessions = iter((SimpleNamespace(open=object()), None))

        @property
        def session(self) -> object:
            return next(self.sessions)

    monkeypatch.setattr(windows, "_windows", Ending())
    assert windows.is_tracing()
    assert not windows.is_tracing()
