"""Real Python processes, looked at from outside."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gapless.errors import NotFoundError, UsageError
from gapless.live.outside.attached import Attached, GpuUse, ProcessUse, ThreadUse
from gapless.live.outside.attaching import attach, read_figures
from gapless.live.outside.stack_looks import StackLooks, count_lines
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


def look_at(pid: int, seconds: float = 0.8) -> Attached:
    return attach(pid, seconds, lambda _: None)


def test_a_busy_process_works_or_waits_for_a_processor() -> None:
    with child(BUSY) as pid:
        attached = look_at(pid)
    thread = attached.main.thread
    assert thread.share(thread.on_processor_ns) + thread.share(thread.ready_ns) > 0.8
    assert attached.workers == ()
    assert attached.seconds == pytest.approx(0.8, rel=0.5)


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


PY_SPY = """#!{python}
import sys
arguments = sys.argv[1:]
assert arguments[0] == "record" and "--nonblocking" in arguments
{action}
"""
WRITES = """
with open(arguments[arguments.index("--output") + 1], "w") as file:
    file.write("process 7;thread (0x1): MainThread;main (/w/train.py:9) 4\\n")
"""


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that installs a py-spy which does something."""

    def install(action: str) -> None:
        program = tmp_path / "py-spy"
        program.write_text(PY_SPY.format(python=sys.executable, action=action))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return install


def test_lines_come_from_py_spy_where_it_is(py_spy: Callable[[str], None]) -> None:
    py_spy(WRITES)
    with child(SLEEPING) as pid:
        attached = look_at(pid)
    assert [(line.share, line.place) for line in attached.lines] == [(1.0, "main (/w/train.py:9)")]
    assert not any("py-spy" in note for note in attached.notes)


def test_what_py_spy_may_not_see_is_said(py_spy: Callable[[str], None]) -> None:
    py_spy("sys.exit('Error: Permission Denied: Try running again with elevated permissions')")
    with child(SLEEPING) as pid:
        attached = look_at(pid)
    assert attached.lines == ()
    assert any("py-spy saw nothing: Error: Permission Denied" in note for note in attached.notes)


def test_without_py_spy_it_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    stacks = StackLooks(1, 1.0)
    stacks.start()
    assert stacks.finish() == ()
    assert stacks.why_none is not None
    assert "pip install py-spy" in stacks.why_none


@pytest.mark.parametrize(
    ("user", "words"),
    [(1000, "only .*root may look at it: sudo gapless attach"), (0, "not even root")],
)
def test_who_may_not_look_is_told_who_may(
    user: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "io":
            raise PermissionError
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(UsageError, match=words):
        check_target(os.getpid())


def test_a_launchers_python_children_are_named() -> None:
    shell = ["sh", "-c", f"{sys.executable} -c '{SLEEPING}' & wait"]
    with subprocess.Popen(shell, start_new_session=True) as process:
        try:
            time.sleep(0.5)
            with pytest.raises(UsageError, match=r"below it there are: \d+ \(.*time.sleep"):
                check_target(process.pid)
        finally:
            os.killpg(process.pid, 9)


def test_figures_are_read_in_words() -> None:
    waiting = ThreadUse(100, 10, 0, 0, 90, {}, 20)
    working, queueing = ThreadUse(100, 90, 0, 0, 10, {}, 20), ThreadUse(100, 30, 60, 0, 10, {}, 20)
    reading = ThreadUse(100, 5, None, 70, 25, {}, 20)

    def process(thread: ThreadUse) -> ProcessUse:
        return ProcessUse(1, "python", thread, None, 1, 1, None, None, None)

    gpu = GpuUse("gpu0", "", 0.3, None, None, None, None, None, None, ())
    sentences: list[tuple[ThreadUse, list[ThreadUse], list[GpuUse], str]] = [
        (waiting, [], [], "the main thread works 10 % of the time, and waits else"),
        (
            waiting,
            [waiting, waiting],
            [],
            "the main thread works 10 % of the time, and waits else; its 2 workers work 10 % of it",
        ),
        (waiting, [working], [], "all workers work without a pause while it waits: it likely"),
        (queueing, [], [], "processors are short: 60 % of the time a thread waits for one"),
        (waiting, [reading], [], "a disk keeps a process waiting 70 % of the time"),
        (working, [], [gpu], "a GPU has nothing to do 70 % of the time; the main thread itself"),
    ]
    for thread, workers, gpus, words in sentences:
        text = read_figures(process(thread), [process(worker) for worker in workers], gpus)
        assert text.startswith(words)
