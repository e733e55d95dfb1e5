"""What becomes of a window that a child saves."""

import os
import time
from pathlib import Path
from typing import cast

import pytest

from gapless.payload.windows.save import Child
from gapless.payload.windows.session import Session


@pytest.mark.parametrize(("code", "is_whole"), [(0, True), (1, False)])
def test_the_child_says_whether_the_file_is_whole_though_the_launcher_has_taken_it(
    code: int, is_whole: bool, tmp_path: Path
) -> None:
    command = ["/bin/sh", "-c", f"exit {code}"]
    pid = os.posix_spawn(command[0], command, {})
    child = Child(object(), str(tmp_path / "rank0-step27.json"), pid, time.monotonic_ns())
    end = time.monotonic() + 20
    while (is_saved := child.check_saved(time.monotonic_ns())) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert is_saved is is_whole


def test_of_a_child_that_somebody_else_waited_for_the_file_tells(tmp_path: Path) -> None:
    pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", "exit 0"], {})
    os.waitpid(pid, 0)
    path = tmp_path / "rank0-step27.json"
    child = Child(object(), str(path), pid, time.monotonic_ns())
    assert child.check_saved(time.monotonic_ns()) is False
    path.touch()
    assert child.check_saved(time.monotonic_ns()) is True


class Saving:
    """A window under way to its file."""

    result, path = None, ""
    is_whole: bool | None = None

    def check_saved(self, _now: int) -> bool | None:
        return self.is_whole


@pytest.mark.parametrize(("world", "opened_steps"), [("1", [9]), ("2", [8, 9])])
def test_a_window_waits_until_the_one_before_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: str, opened_steps: list[int]
) -> None:
    """Both would be in memory at once; but ranks open theirs at the same step."""
    monkeypatch.setenv("WORLD_SIZE", world)
    session, before, steps = Session(str(tmp_path), {}), Saving(), list[int]()

    def note(_kind: str, step: int) -> None:
        steps.append(step)

    monkeypatch.setattr(session, "_open", note)
    session.keeping.children.append((cast("Child", before), {}))
    for step in range(10):
        before.is_whole = True if step == 9 else None
        session.edge(step, (step + 1) * 10_000_000)
    assert steps == opened_steps
