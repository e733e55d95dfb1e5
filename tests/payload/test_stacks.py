"""Stacks are sampled by a thread that nobody sees, and that is gone while a process forks."""

import inspect
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.log import thinning
from gapless.payload.stacks import (
    blocked,
    counting,
    own_threads,
    plain_steps,
    schedule,
    snapshots,
    stacks,
)
from tests.payload.watching import read_logs, run_preloaded, run_recorded, script_command
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def stack_frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    stack_frames: list[dict[str, Any]] = []

    def write(kind: int, value: dict[str, Any]) -> None:
        assert kind == wire.STACKS
        stack_frames.append(value)

    monkeypatch.setattr(recorder, "write", write)
    monkeypatch.setattr(recorder, "options", lambda: {"stacks_hz": 200})
    monkeypatch.setattr(own_threads, "FORK_S", PATIENCE_S)
    monkeypatch.setattr(recorder._recording, "edge", None)  # of another test  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    stacks.start()
    yield stack_frames
    stacks.stop()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, stack_frames: list[dict[str, Any]]) -> list[int]:
    """Return a list that grows with each look."""
    looks_ns, original_look = list[int](), stacks._look  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def look(elapsed_ns: int, ran_ns: int | None, seen: tuple[object, snapshots.Snapshot]) -> None:
        original_look(elapsed_ns, ran_ns, seen)
        looks_ns.append(elapsed_ns)

    assert stack_frames == []
    monkeypatch.setattr(stacks, "_look", look)
    return looks_ns


def frames_from(frame: FrameType | None) -> list[tuple[Any, int]]:
    """Return code and line of a frame and those around it."""
    return [(inner.f_code, line) for inner, line in traceback.walk_stack(frame)]


def busy_here(looks: list[int]) -> None:
    n_wanted, end = len(looks) + 8, time.monotonic() + PATIENCE_S
    while len(looks) < n_wanted and time.monotonic() < end:
        pass


def looking_task() -> Path:
    """Return the task of the thread that looks, once it has begun."""
    wait_until(lambda: _STATE.thread.tid)
    return Path(f"/proc/self/task/{_STATE.thread.tid}")


_STATE = stacks._state  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def test_the_stack_of_the_training_thread_is_counted_innermost_first(
    stack_frames: list[dict[str, Any]], looks: list[int]
) -> None:
    before = threading.enumerate()
    busy_here(looks)
    assert threading.enumerate() == before
    stacks.stop()
    (frame,) = stack_frames
    assert (frame["thread"], frame["step"]) == ("first", 0)  # no step has ended
    assert frame["looks"] == sum(stack[0] for stack in frame["stacks"])
    busy_stacks = [
        stack for stack in frame["stacks"] if [__file__, "busy_here"] == stack[1][0][::2]
    ]
    assert sum(stack[0] for stack in busy_stacks) > 5
    assert all(stack[1][1][2].startswith("test_") for stack in busy_stacks)


def test_what_a_step_does_late_is_known_once_enough_steps_have_shown_how_long_they_take(
    stack_frames: list[dict[str, Any]], looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.monotonic_ns()
    edges = ((0, now_ns - 20_000_000), (20, now_ns), (21, now_ns + 1))  # of 1 ms each
    for edge, is_late in zip(edges, (False, False, True), strict=True):
        monkeypatch.setattr(recorder._recording, "edge", edge)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        stacks._report()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        late_ns = sum(stack[5] for stack in stack_frames[-1]["stacks"]) if stack_frames else 0
        assert (late_ns > 0) is is_late
        assert not is_late or late_ns <= sum(
            stack[2] + stack[3] for stack in stack_frames[-1]["stacks"]
        )
        busy_here(looks)


def test_what_is_done_after_the_last_step_is_none_of_the_training(
    stack_frames: list[dict[str, Any]], looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.monotonic_ns()
    for edge in ((0, now_ns - 20_000_000), (20, now_ns)):
        monkeypatch.setattr(recorder._recording, "edge", edge)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        busy_here(looks)
    stacks._report()  # of a step that may hang, and be killed  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    looks_of = {
        frame["thread"]: sum(stack[0] for stack in frame["stacks"]) for frame in stack_frames
    }
    assert sorted(looks_of) == ["ending", "training"]
    assert min(looks_of.values()) > 5


def test_where_there_is_no_room_stacks_are_counted_on(
    stack_frames: list[dict[str, Any]], looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "REPORT_NS", 0)
    monkeypatch.setattr(_STATE, "wait_ns", 0)

    def affords(*, last: bool = False) -> bool:
        return last

    monkeypatch.setattr(thinning, "affords", affords)
    busy_here(looks)
    assert stack_frames == []
    stacks.stop()
    assert sum(stack[0] for stack in stack_frames[0]["stacks"]) > 5


def test_what_was_seen_is_told_again_after_half_of_the_time_since_the_start(
    stack_frames: list[dict[str, Any]], looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_STATE, "wait_ns", 0)
    # a look may have read the clock just before this
    monkeypatch.setattr(_STATE, "began", time.monotonic_ns() - 601_000_000_000)
    busy_here(looks)
    assert len(stack_frames) == 1
    assert 300e9 <= _STATE.wait_ns < 600e9


def test_the_thread_is_gone_for_a_fork_and_back_after_it(
    stack_frames: list[dict[str, Any]],
) -> None:
    old_task = looking_task()
    assert old_task.exists()
    _STATE.before_fork()
    assert not old_task.exists()
    _STATE.after_fork()
    new_task = looking_task()
    assert new_task.exists()
    stacks.stop()
    assert not new_task.exists()
    _STATE.after_fork()
    assert _STATE.thread.alarm is None, "not after the end"
    assert len(stack_frames) <= 1


def test_a_process_that_allows_no_more_threads_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    notes: list[tuple[str, str]] = []

    def note(topic: str, why: str) -> None:
        notes.append((topic, why))

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    monkeypatch.setattr(recorder, "report_unobserved", note)
    stacks.start()
    assert notes[-1:] == [("stacks", 'RuntimeError("can\'t start new thread")')]
    assert os.getpid()
    stacks.stop()


def test_the_first_looks_at_a_training_come_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_jitter", lambda: 1.0)
    pause = stacks._pause_s  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(_STATE, "role", "training")
    monkeypatch.setattr(_STATE, "looking_s", 0.0)
    assert pause(0.1, 0) == pytest.approx(0.1 / stacks.EARLY_FACTORS["training"])
    assert pause(0.1, stacks.FIRST_LOOKS) == pytest.approx(0.1)
    monkeypatch.setattr(_STATE, "looking_s", 0.0005)  # a hundredth of the time: every 50 ms
    assert pause(0.1, 0) == pytest.approx(0.05)
    monkeypatch.setattr(_STATE, "role", "worker")
    assert pause(0.1, 0) == pytest.approx(0.1)


def test_waiting_for_crowded_processors_is_a_quarter_of_what_a_look_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = stacks._count_cost  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    # The last one was not preempted: what it waited was the GIL, and the training went on.
    for looking_ns, ran_ns, cost_s in (
        (160_000, 160_000, 1e-5),
        (1_600_000, 160_000, 2.5e-5),
        (0, 160_000, 1e-5),
    ):
        monkeypatch.setattr(_STATE, "looking_s", 0.0)
        count(looking_ns, ran_ns)
        assert _STATE.looking_s == pytest.approx(cost_s)


def test_a_call_that_holds_the_gil_gets_the_time_that_it_takes() -> None:
    """Looks are late there, and the next ones must not follow its ends."""
    step_ns, held_ns, pauses = 33_000_000, 14_500_000, random.Random(0)
    due = stood_ns = 0
    while due < 10_000 * step_ns:
        before, pause_ns = due, int(17e6 * pauses.uniform(0.5, 1.5))
        phase_ns = (due + pause_ns) % step_ns  # each step begins with the call
        seen_ns = due + pause_ns + max(0, held_ns - phase_ns)
        due = schedule.last_due(due + pause_ns, pause_ns, seen_ns)
        stood_ns += due - before if phase_ns < held_ns else 0
    assert stood_ns / due == pytest.approx(held_ns / step_ns, abs=0.02)


@pytest.mark.parametrize("is_preempted", [False, True])
def test_only_a_look_that_loses_its_processor_is_charged_with_what_it_waits(
    looks: list[int], monkeypatch: pytest.MonkeyPatch, *, is_preempted: bool
) -> None:
    before = own_threads.count_preemptions()
    assert before is None or before >= 0
    counts, wait_s = iter(range(10_000)), 0.05

    def wait(_: int | None, *, runs: bool) -> None:
        assert isinstance(runs, bool)
        time.sleep(wait_s)

    monkeypatch.setattr(own_threads, "count_preemptions", lambda: is_preempted and next(counts))
    monkeypatch.setattr(blocked, "waits_for", wait)
    busy_here(looks)
    stacks.stop()
    assert (_STATE.looking_s > wait_s / stacks.CROWDED_FACTOR / 4) is is_preempted


def test_looks_at_steps_that_a_window_traces_count_only_where_few_others_do(
    looks: list[int], stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_open = True
    windows = SimpleNamespace(is_tracing=lambda: is_open)
    monkeypatch.setitem(sys.modules, "gapless.payload.windows", windows)
    busy_here(looks)  # without any plain step there is nothing else
    is_open = False
    monkeypatch.setattr(plain_steps, "ENOUGH_LOOKS", 8)
    busy_here(looks)
    n_counted, is_open = len(looks), True
    busy_here(looks)
    stacks.stop()
    n_told = sum(frame["looks"] for frame in stack_frames)
    assert abs(n_told - n_counted) <= 2


def test_what_comes_before_the_training_is_set_up_and_counted_by_itself(
    looks: list[int], stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks.stop()
    stack_frames.clear()

    def register(_: Callable[[], None]) -> None:
        """Do what a recorder does that never begins."""

    for action in ("on_first", "on_stop"):
        monkeypatch.setattr(recorder, action, register)
    stacks.install()
    busy_here(looks)
    stacks.start()
    busy_here(looks)
    stacks.stop()
    assert [frame["thread"] for frame in stack_frames] == ["setup", "first"]
    for frame in stack_frames:
        n_looks = sum(stack[0] for stack in frame["stacks"])
        assert n_looks + frame["rest"][0] >= frame["looks"] >= n_looks > 5


def test_what_comes_before_the_end_of_the_first_step_is_set_up(
    looks: list[int], stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_STATE, "wait_ns", stacks.NEVER_NS)  # a busy machine takes five seconds
    busy_here(looks)
    monkeypatch.setattr(recorder._recording, "edge", (1, time.monotonic_ns()))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    busy_here(looks)
    stacks.stop()
    assert [frame["thread"] for frame in stack_frames] == ["setup", "training"]
    assert all(frame["looks"] > 5 for frame in stack_frames)


def test_what_was_written_before_the_first_step_ended_is_apart_from_what_steps_do(
    looks: list[int], stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_STATE, "wait_ns", stacks.NEVER_NS)
    busy_here(looks)
    stacks._report()  # as after five seconds  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    busy_here(looks)
    monkeypatch.setattr(recorder._recording, "edge", (7, time.monotonic_ns()))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    busy_here(looks)
    stacks.stop()
    threads_and_steps = [(frame["thread"], frame["step"]) for frame in stack_frames]
    assert threads_and_steps == [("first", 0), ("first", 7), ("training", 7)]


def test_the_set_up_of_a_worker_is_none_of_the_training(
    looks: list[int], stack_frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks.stop()
    stack_frames.clear()
    monkeypatch.setattr(_STATE, "role", "setup")
    counting.add(frames_from(inspect.currentframe()), 5, None)
    monkeypatch.setattr(recorder, "is_worker", lambda: True)
    stacks.start()
    busy_here(looks)
    stacks.stop()
    assert [frame["thread"] for frame in stack_frames] == ["worker"]


def test_set_up_that_never_ends_is_looked_at_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stacks, "_jitter", lambda: 1.0)
    pause = stacks._pause_s  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(_STATE, "role", "setup")
    monkeypatch.setattr(_STATE, "began", time.monotonic_ns())
    monkeypatch.setattr(_STATE, "looking_s", 0.0)
    assert pause(0.1, 0) == pytest.approx(0.1 / stacks.EARLY_FACTORS["setup"])
    monkeypatch.setattr(_STATE, "began", time.monotonic_ns() - 3_600_000_000_000)
    assert pause(0.1, stacks.FIRST_LOOKS) == pytest.approx(3600 / stacks.SETUP_PART, rel=0.01)


def test_what_imports_modules_is_in_no_stack_and_what_is_not_kept_is_summed() -> None:
    counting.stacks.fork()
    imported: dict[str, Any] = {}
    code = "import sys; frame = sys._getframe()"
    exec(compile(code, "<frozen importlib._bootstrap>", "exec"), imported)  # noqa: S102
    counting.add(frames_from(imported["frame"]), 7, "file")
    counting.add(frames_from(inspect.currentframe()), 3, None)
    report = counting.take(1)
    ((count, frames, *amounts),) = report["stacks"]
    assert (count, amounts, report["rest"], report["looks"]) == (
        1,
        [0, 7, {"file": 7}, 0],
        [1, 3, 0],
        2,
    )
    assert frames
    assert not [file for file, _, _ in frames if file.startswith("<frozen importlib")]
    assert counting.take(1) == {"stacks": [], "looks": 0, "rest": [0, 0, 0]}


def test_a_program_is_sampled_from_its_first_import_of_torch_on(tmp_path: Path) -> None:
    script = script_command("train_after_set_up.py")
    plain = run_preloaded(script, tmp_path)
    recorded = run_recorded(script, tmp_path, tmp_path / "spool")
    assert recorded == plain
    (log,) = read_logs(tmp_path / "spool").values()
    reports = [text for kind, text in log.texts if kind == wire.STACKS]
    seen_ns = Counter[tuple[str, str]]()
    for report in reports:
        for _, frames, ran_ns, off_ns, *_ in report["stacks"]:
            assert not [file for file, _, _ in frames if file.startswith("<frozen importlib")]
            names = {function for file, _, function in frames if file.endswith("set_up.py")}
            seen_ns.update({(report["thread"], name): ran_ns + off_ns for name in names})
    assert 0.3e9 < seen_ns["setup", "set_up"] < seen_ns["setup", "<module>"]
    assert seen_ns["training", "main"] > 0.2e9
    assert not seen_ns["training", "set_up"]
