"""No thread of ours outlives what it must not outlive: a fork, and the interpreter."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gapless.payload import recorder
from gapless.payload.stacks import own_threads, stacks
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_SCRIPT = """
import os, sys, threading, time
import torch

class Slow:  # a destructor that lets go of the GIL, as that of a tensor does
    def __del__(self):
        if threading.get_native_id() != os.getpid():
            print("collected elsewhere", flush=True)
            time.sleep(0.5)
            print("done", flush=True)

from torch.utils.data import DataLoader
for _ in DataLoader(range(2)):
    pass
stacks = next(sys.modules[name] for name in sys.modules if name.endswith(".stacks.stacks"))
def look(*_):
    slow = Slow()
    del slow
stacks._look = look
time.sleep(0.3)
"""


def test_the_end_of_a_process_waits_for_a_thread_in_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def look(*_: object) -> None:
        looks.append(1)
        time.sleep(0.3)

    def write(*_: object) -> None:
        return None

    def options() -> dict[str, Any]:
        return {"stacks_hz": 100}

    monkeypatch.setattr(stacks, "_look", look)
    monkeypatch.setattr(recorder, "options", options)
    monkeypatch.setattr(recorder, "write", write)
    stacks.start()
    wait_until(lambda: looks)
    task = Path(f"/proc/self/task/{stacks._state.thread.tid}")  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    stacks.finish()
    assert task.exists(), "asked to end, and not awaited yet"
    stacks.wait_for_end()
    assert not task.exists()
    stacks.stop()


def test_while_threading_is_being_imported_the_clock_of_a_thread_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "threading", ModuleType("threading"))
    assert stacks._clock() is None  # pyright: ignore[reportPrivateUsage] # noqa: SLF001


def test_a_thread_that_never_was_is_not_awaited() -> None:
    start_s = time.monotonic()
    own_threads.OwnThread().wait_for_end(10)
    assert time.monotonic() - start_s < 5


def test_a_thread_that_does_not_end_is_awaited_no_longer_than_that() -> None:
    start_s = time.monotonic()
    thread = own_threads.OwnThread()
    thread.tid = os.getpid()
    thread.wait_for_end(0.05)
    assert time.monotonic() - start_s >= 0.05


def test_what_our_thread_collects_at_the_end_is_collected_before_the_interpreter_ends(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT, "utf-8")
    command = [sys.executable, "-m", "gapless", "run", "--quiet", "--out", str(tmp_path / "runs")]
    result = subprocess.run(
        [*command, "--", sys.executable, str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")
    assert lines.count("collected elsewhere") > 0
    assert lines.count("done") == lines.count("collected elsewhere")
