"""A process with torch in which nothing steps says what it does instead."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.payload import recorder
from gapless.payload.stacks import own_threads, unstepped
from tests.payload.watching import run_recorded, script_command
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    def ignore(_: Callable[[], None]) -> None:
        """Register nothing: the recorder is not in this process."""

    write = unstepped._write  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def write_once(*, last: bool = False) -> None:
        (stack, count), *_ = Counter(COUNTS).most_common(1) or [((), 0)]
        if last or (count > 5 and stack[0][2] == "spin"):
            write(last=last)
            monkeypatch.setattr(unstepped, "WRITE_NS", 1 << 62)
            WRITTEN.append(last)

    monkeypatch.setenv(wire.SPOOL, str(tmp_path))
    for name in ("on_first", "on_stop"):
        monkeypatch.setattr(recorder, name, ignore)
    for name in ("FIRST_NS", "WRITE_NS", "SHORT_NS"):
        monkeypatch.setattr(unstepped, name, 20_000_000)
    monkeypatch.setattr(unstepped, "PERIOD_S", 0.005)
    monkeypatch.setattr(own_threads, "FORK_S", PATIENCE_S)
    monkeypatch.setattr(unstepped, "_write", write_once)
    WRITTEN.clear()
    unstepped.install()
    yield tmp_path
    unstepped.stop()


COUNTS = unstepped._state.counts  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
WRITTEN: list[bool] = []  # by the thread that looks


def spin() -> None:
    """Go on until the report is written."""
    end = time.monotonic() + PATIENCE_S
    while not WRITTEN and time.monotonic() < end:
        time.sleep(0.001)


def read_report(spool: Path) -> dict[str, Any]:
    (path,) = spool.glob("unstepped-*")
    return json.loads(path.read_text())


def test_the_lines_of_the_main_thread_are_counted(spool: Path) -> None:
    assert list(spool.iterdir()) == []
    spin()
    report = read_report(spool)
    assert report["last"] is False
    assert report["cpu_ns"] > 0
    count, stack = report["stacks"][0]
    assert [stack[0][0], stack[0][2]] == [__file__, "spin"]
    assert stack[1][2] == "test_the_lines_of_the_main_thread_are_counted"
    assert 5 < count <= report["looks"]


def test_the_end_of_the_process_is_written(spool: Path) -> None:
    spin()
    unstepped.finish()
    assert read_report(spool)["last"] is True


def test_what_steps_leaves_no_file(spool: Path) -> None:
    spin()
    assert read_report(spool)
    old_task = looking_task()
    unstepped.stop()
    assert list(spool.iterdir()) == []
    wait_until(lambda: not old_task.exists())
    assert list(spool.iterdir()) == [], "the thread has ended"


def looking_task() -> Path:
    """Return the task of the thread that looks, once it has begun."""
    state = unstepped._state  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    wait_until(lambda: state.thread.tid)
    return Path(f"/proc/self/task/{state.thread.tid}")


def test_the_thread_is_gone_for_a_fork_and_back_after_it(spool: Path) -> None:
    old_task = looking_task()
    assert old_task.exists()
    unstepped._state.before_fork()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert not old_task.exists()
    unstepped._state.after_fork()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert looking_task().exists()
    spin()
    assert read_report(spool)["looks"] > 0


def test_a_command_that_loads_torch_and_does_not_step_tells_of_itself(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import torch, time\ntime.sleep(1.2)\nprint(torch.ones(1))\n")
    spool = tmp_path / "spool"
    command = [script_command("any_loops.py")[0], "t.py"]
    assert run_recorded(command, tmp_path, spool) == (0, "tensor([1.])\n", "")
    assert read_report(spool)["argv"] == ["t.py"]
    assert not list(spool.glob("*.log"))


def test_a_report_that_is_written_while_the_first_step_ends_does_not_stay(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unstepped.stop()
    monkeypatch.undo()
    unstepped._write()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert not list(spool.iterdir())
    unstepped._write(last=True)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert read_report(spool)["last"]
