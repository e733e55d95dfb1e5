"""Several processes read as one does, bit for bit, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gapless.errors import NotATraceError
from gapless.formats import kineto, pool, read
from tests.formats.writing import differences, document, health_counts, kernel, op, write_trace


def _events(count: int) -> Iterator[str]:
    for i in range(count):
        shape = {"Input Dims": [[i % 97, 3]], "Input type": ["float"], "pad": "x" * 120}
        yield op(f"op{i % 1013}", ts=f"{i}.{i % 1000:03}", dur="1.5", tid=i % 5, args=shape)
        if i % 4 == 0:
            yield kernel(ts=f"{i}.250", dur="1.001", correlation=i, grid=[i % 31, 1, 1])
        if i % 5000 == 2500:
            yield op(f'{i} "a" b').replace("\\", "")  # does not decode as it is


@pytest.fixture(scope="module")
def big_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a trace of five chunks, whose last ones bring new names and broken events."""
    return write_trace(tmp_path_factory.mktemp("big"), document(_events(60_000)), "big.json.gz")


def test_workers_are_no_copies_where_others_await_the_ends_of_children(big_trace: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as some servers do
    counts: list[int] = []
    try:
        trace = read(big_trace, processes=2, report_entries=counts.append)
        assert len(trace.events) == 60_000 + 15_000 + 12
        assert len(counts) > 2  # how far it has come is told
        assert counts == sorted(counts)
        assert counts[-1] <= len(trace.events)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_one_process_reads_if_no_copy_can_be_made(
    big_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    n_open = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(pool, "_may_fork", lambda: True)
    monkeypatch.setattr(os, "fork", refuse_fork)
    assert len(read(big_trace, processes=2).events) == 60_000 + 15_000 + 12
    assert len(list(Path("/proc/self/fd").iterdir())) == n_open


@pytest.fixture(params=["copies", "interpreters"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Start workers in each of the two ways."""
    way: str = request.param
    monkeypatch.setattr(pool, "_may_fork", lambda: way == "copies")
    return way


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("processes", [2, 3])
def test_workers_read_what_one_process_reads_bit_for_bit(big_trace: Path, processes: int) -> None:
    alone = read(big_trace, processes=1)
    together = read(big_trace, processes=processes)
    assert len(alone.events) == 60_000 + 15_000 + 12
    assert health_counts(alone)[1] == {"unescaped quote": 12}
    assert differences(alone, together) == []
    assert psutil.Process().children() == []


def test_workers_tell_of_a_cut_file_as_one_process_does(big_trace: Path, tmp_path: Path) -> None:
    data = big_trace.read_bytes()
    cut = write_trace(tmp_path, b"", "cut.bin")
    cut.write_bytes(data[: len(data) * 3 // 4])
    alone = read(cut, processes=1)
    assert alone.health.truncated
    assert differences(alone, read(cut, processes=2)) == []


def test_more_workers_than_chunks_do_no_harm(tmp_path: Path) -> None:
    path = write_trace(tmp_path, document([op(), kernel()]))
    assert differences(read(path, processes=1), read(path, processes=4)) == []


def test_what_is_no_trace_is_refused_before_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "start_workers", None)
    with pytest.raises(NotATraceError):
        read(write_trace(tmp_path, "{}"), processes=2)


@pytest.mark.usefixtures("ways")
def test_one_process_reads_on_if_a_worker_is_killed(
    big_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_workers, killed_pids = pool.start_workers, list[int]()

    @contextmanager
    def start_and_kill(path: Path, count: int) -> Generator[list[pool.Worker]]:
        with start_workers(path, count) as workers:
            for child in psutil.Process().children()[:1]:
                child.kill()
                killed_pids.append(child.pid)
            yield workers

    monkeypatch.setattr(pool, "start_workers", start_and_kill)
    trace = read(big_trace, processes=2)
    assert len(killed_pids) == 1
    assert differences(trace, read(big_trace, processes=1)) == []
    assert psutil.Process().children() == []


@pytest.mark.parametrize("executable", ["/does/not/exist", ""])
def test_one_process_reads_if_workers_cannot_start(
    big_trace: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(pool, "_may_fork", lambda: False)
    monkeypatch.setattr(sys, "executable", executable)
    assert len(read(big_trace, processes=2).events) == 75_012


def test_a_worker_that_sends_rubbish_is_as_good_as_dead(
    big_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_may_fork", lambda: False)
    monkeypatch.setattr(pool, "_WORKER_CODE", "print('x' * 8 + 'hello' * 10**6)")
    assert len(read(big_trace, processes=2).events) == 75_012


def test_a_script_without_a_main_guard_may_read_a_big_file(big_trace: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from gapless.formats import read\n"
        f"trace = read({str(big_trace)!r}, processes=2)\n"
        "print(len(trace.events))\n"
    )
    completed = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=240
    )
    assert (completed.stdout, completed.stderr, completed.returncode) == ("75012\n", "", 0)


def test_modules_beside_the_users_script_do_not_reach_the_workers(
    big_trace: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "shadow"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('hello from the wrong place')")
    (folder / "script.py").write_text(
        "from gapless.formats import pool, read\n"
        "pool._may_fork = lambda: False\n"
        f"print(len(read({str(big_trace)!r}, processes=2).events))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONSTARTUP": "x",
        "PYTHONVERBOSE": "",
    }
    completed = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=240,
    )  # fmt: skip
    assert completed.stdout.splitlines() == ["hello from the wrong place", "75012"]


@pytest.mark.parametrize(
    ("end", "fork"),
    [
        (signal.SIGINT, "True"),
        (signal.SIGKILL, "True"),
        (signal.SIGTERM, "False"),
        (signal.SIGKILL, "False"),
    ],
)
def test_no_process_is_left_behind_however_the_reading_ends(
    big_trace: Path, end: signal.Signals, fork: str
) -> None:
    code = (
        f"from gapless.formats import pool, read\npool._may_fork = lambda: {fork}\n"
        f"while True: read({str(big_trace)!r}, processes=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    try:
        children = _wait_for_children(process.pid)
        process.send_signal(end)
        _, errors = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (b"KeyboardInterrupt" in errors) == (end == signal.SIGINT)
    assert not psutil.wait_procs(children, timeout=240)[1]


def _wait_for_children(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    end = time.monotonic() + 120  # imports take seconds where many processes share a core
    while time.monotonic() < end:
        children = parent.children()
        if len(children) == 2:
            return children
        time.sleep(0.02)
    pytest.fail("no workers were started")


@pytest.mark.parametrize(
    ("size", "compressed", "expected"),
    [(5 << 20, True, 3), (3 << 20, True, 1), (23 << 20, False, 1), (25 << 20, False, 3)],
)
def test_only_big_files_are_worth_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, compressed: bool, expected: int
) -> None:
    counts: list[int] = []

    def counting(_path: Path, _head: bytes, count: int, _: object) -> None:
        counts.append(count)

    monkeypatch.setattr(kineto, "count_processors", lambda: 3)
    monkeypatch.setattr(kineto, "_read_with_workers", counting)
    path = write_trace(tmp_path, document([op()]), "t.json.gz" if compressed else "t.json")
    with path.open("ab") as file:
        file.truncate(size)
    read(path)
    assert counts == ([expected] if expected > 1 else [])
