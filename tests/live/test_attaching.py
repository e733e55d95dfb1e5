"""Real Python processes, looked at from outside."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from gapless.errors import NotFoundError, UsageError
from gapless.live.outside.attached import Attached
from gapless.live.outside.attaching import attach
from gapless.live.outside.stack_looks import count_lines
from gapless.live.outside.target import check_target, is_recorded

BUSY = "while True: pass"
SLEEPING = "import time; time.sleep(600)"
WITH_A_WORKER = """
import os, time
if os.fork() == 0:
    while True: pass
time.sleep(600)
"""


@contextmanager
def child(code: str, **variables: str) -> Generator[int]:
    """Run Python code in a child until the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **variables}, start_new_session=True
    )
    time.sleep(0.3)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def look_at(pid: int, seconds: float = 1.5) -> Attached:
    return attach(pid, seconds, lambda _: None)


def test_a_busy_process_works_or_waits_for_a_processor() -> None:
    with child(BUSY) as pid:
        attached = look_at(pid)
    thread = attached.main.thread
    assert thread.share(thread.on_processor_ns) + thread.share(thread.ready_ns) > 0.8
    assert attached.workers == ()
    assert attached.seconds == pytest.approx(1.5, rel=0.5)


def test_a_sleeping_process_waits() -> None:
    with child(SLEEPING) as pid:
        attached = look_at(pid)
    thread = attached.main.thread
    assert thread.share(thread.otherwise_ns) > 0.8
    parts = (thread.on_processor_ns, thread.ready_ns or 0, thread.disk_ns, thread.otherwise_ns)
    assert sum(parts) == thread.wall_ns
    assert sum(thread.waits.values()) == thread.otherwise_ns
    assert attached.exact.endswith(f"gapless run {sys.executable} -c '{SLEEPING}'")


def test_workers_are_the_processes_below() -> None:
    with child(WITH_A_WORKER) as pid:
        attached = look_at(pid)
    (worker,) = attached.workers
    assert worker.pid != pid
    assert worker.thread.share(worker.thread.otherwise_ns) < 0.2


def test_a_process_that_is_gone() -> None:
    with child(SLEEPING) as pid:
        pass
    with pytest.raises(NotFoundError, match=f"there is no process {pid}"):
        check_target(pid)


def test_a_process_that_is_no_python() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:  # noqa: S607
        try:
            time.sleep(0.2)
            with pytest.raises(UsageError, match=f"process {process.pid} is no Python: sleep 600"):
                check_target(process.pid)
        finally:
            process.kill()


def test_a_recorded_training_is_recognised() -> None:
    with child(SLEEPING, GAPLESS_SPOOL="/tmp/x") as pid:  # noqa: S108
        assert is_recorded(pid)


def test_lines_of_libraries_stand_for_the_line_that_called_them() -> None:
    stacks = """\
process 7;thread (0x1): MainThread;main (/w/train.py:9);step (/v/site-packages/torch/a.py:5) 3
process 7;thread (0x2): pin;run (/lib/python3.11/threading.py:5) 9
process 7;thread (0x1): MainThread;main (/w/train.py:8) 1
"""
    assert [(line.share, line.place) for line in count_lines(stacks)] == [
        (0.75, "main (/w/train.py:9)"),
        (0.25, "main (/w/train.py:8)"),
    ]
