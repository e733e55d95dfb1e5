"""What becomes of a window that a child saves."""

import os
import time
from pathlib import Path

import pytest

from gapless.payload.windows.save import Child


@pytest.mark.parametrize(("code", "whole"), [(0, True), (1, False)])
def test_the_child_says_whether_the_file_is_whole_though_the_launcher_has_taken_it(
    code: int, whole: bool, tmp_path: Path
) -> None:
    command = ["/bin/sh", "-c", f"exit {code}"]
    pid = os.posix_spawn(command[0], command, {})
    child = Child(object(), str(tmp_path / "rank0-step27.json"), pid, time.monotonic_ns())
    end = time.monotonic() + 20
    while (found := child.saved(time.monotonic_ns())) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert found is whole


def test_of_a_child_that_somebody_else_waited_for_the_file_tells(tmp_path: Path) -> None:
    pid = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", "exit 0"], {})
    os.waitpid(pid, 0)
    path = tmp_path / "rank0-step27.json"
    child = Child(object(), str(path), pid, time.monotonic_ns())
    assert child.saved(time.monotonic_ns()) is False
    path.touch()
    assert child.saved(time.monotonic_ns()) is True
