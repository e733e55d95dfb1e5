"""Run folders: finished, running, killed, damaged, of a later version."""

import errno
import fcntl
import gzip
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless import wire
from gapless.errors import RunFolderError
from gapless.model.recording import Unobserved
from gapless.store.logs.framing import is_log
from gapless.store.run import liveness, manifest, recovery
from gapless.store.run.recordings import finish, load
from tests.store import drawing

LOG = b"".join(drawing.training())
HOST = platform.node()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Return a spool, such as launchers make."""
    folder = tmp_path / "gapless-spool-x"
    (folder / "windows").mkdir(parents=True)
    return folder


@pytest.fixture
def dead_pid() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def write_killed_run(
    folder: Path, spool: Path, launcher: int, logs: dict[str, bytes] | None = None
) -> Path:
    """Write the folder of a run whose launcher was killed."""
    return drawing.write_run(
        folder, logs or {}, status="running", ended=None, exit_code=None,
        spool=str(spool), launcher=launcher, host=HOST,
    )  # fmt: skip


def refuse(code: int) -> Callable[..., object]:
    def refuse(*_args: object, **_kwargs: object) -> object:
        raise OSError(code, os.strerror(code), "somewhere")

    return refuse


def always_give(path: Path) -> Callable[..., list[Path]]:
    def give(*_: object) -> list[Path]:
        return [path]

    return give


def read_manifest(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())


def test_a_finished_run_is_read(tmp_path: Path) -> None:
    series = drawing.sample(5, **{"cpu.total": 150})
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG, "samples.log": series})
    (run / "windows").mkdir()
    (run / "windows" / "rank0-step1.json.gz").write_bytes(b"")
    before = (run / "run.json").read_bytes()
    recording = load(str(run))
    assert (recording.path, recording.manifest.id, recording.manifest.status) == (
        str(run),
        "r",
        "finished",
    )
    assert recording.manifest.command == ("python", "train.py")
    (process,) = recording.processes
    assert (len(process.marks), len(process.batches)) == (4, 1)
    assert process.windows[0].path == "windows/rank0-step1.json.gz"
    assert list(recording.samples.series) == ["cpu.total"]
    assert recording.unobserved == ()
    assert (run / "run.json").read_bytes() == before


def test_a_window_that_was_not_kept_has_no_path_and_none_leads_out(tmp_path: Path) -> None:
    log = drawing.process() + drawing.window(1) + drawing.window(2, path="../../run.json")
    log += drawing.window(3, path=None)
    run = drawing.write_run(tmp_path / "r", {"rank0.log": log})
    assert [window.path for window in load(run).processes[0].windows] == [None] * 3


@pytest.mark.parametrize("subfolder", ["logs", "."])
def test_samples_are_found_where_either_version_puts_them(tmp_path: Path, subfolder: str) -> None:
    run = drawing.write_run(tmp_path / "r", {})
    (run / subfolder / "samples.log").write_bytes(drawing.sample(5, a=1))
    assert list(load(run).samples.series) == ["a"]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(RunFolderError, match="is not a run folder"):
            load(folder)


def test_a_manifest_of_a_later_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    run = drawing.write_run(tmp_path / "r", {}, version=9)
    with pytest.raises(RunFolderError, match="is of version 9; this gapless reads up to 1"):
        load(run)


@pytest.mark.parametrize("text", [None, "", "[1]", "{", '{"id": 5'])
def test_a_run_without_its_manifest_is_read(tmp_path: Path, text: str | None) -> None:
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG})
    (run / "run.json").unlink()
    if text is not None:
        (run / "run.json").write_text(text)
    recording = load(run)
    assert (recording.manifest.id, recording.manifest.status) == ("r", "killed")
    assert (recording.manifest.command, recording.manifest.started) == (
        ("train.py", "--epochs", "2"),
        7_000,
    )
    assert recording.unobserved == (Unobserved("run.json", "missing, or no JSON"),)
    assert (run / "run.json").exists() is (text is not None)


def test_a_manifest_of_strange_values_is_read(tmp_path: Path) -> None:
    run = drawing.write_run(
        tmp_path / "r", {}, command="x", ended="now", exit_code=1.5, status="odd", id=None, spool=5
    )
    run_manifest = load(run).manifest
    assert (run_manifest.id, run_manifest.command, run_manifest.ended, run_manifest.exit_code) == (
        "r",
        (),
        None,
        None,
    )
    assert run_manifest.status == "killed"


def test_what_a_killed_launcher_left_is_adopted(tmp_path: Path, spool: Path, dead_pid: int) -> None:
    run = write_killed_run(
        tmp_path / "r", spool, dead_pid, {"rank0.log": LOG[:100], "samples.log": b""}
    )
    (spool / "rank0.log").write_bytes(LOG[:-5])
    (spool / "rank0-worker1.log").write_bytes(drawing.process(9, "worker", worker=1))
    (spool / "windows" / "rank0-step1.json").write_text('{"traceEvents": []}')
    (spool / "windows" / "rank0-step9.json.part").write_text("{")
    (spool / "other.log").write_text("no log of ours")
    recording = load(run)
    assert (recording.manifest.status, recording.manifest.ended) == ("killed", None)
    assert [process.pid for process in recording.processes] == [9, 7]
    training = recording.processes[1]
    assert (len(training.marks), training.end) == (4, None)
    assert training.windows[0].path == "windows/rank0-step1.json.gz"
    assert gzip.decompress((run / "windows" / "rank0-step1.json.gz").read_bytes())[:2] == b'{"'
    assert recording.unobserved[0].what == "the end of rank0.log"
    remaining_names = sorted(path.name for path in spool.rglob("*"))
    assert remaining_names == [
        "other.log",
        "rank0-step9.json.part",
        "windows",
    ]  # not ours, or not whole
    assert read_manifest(run)["status"] == "killed"
    assert "spool" not in read_manifest(run)
    second_recording = load(run)
    assert second_recording.processes[1].marks.start.tolist() == training.marks.start.tolist()


def test_an_empty_spool_goes(tmp_path: Path, spool: Path, dead_pid: int) -> None:
    (spool / "rank0.log").write_bytes(LOG)
    load(write_killed_run(tmp_path / "r", spool, dead_pid))
    assert not spool.exists()


def test_a_run_whose_spool_is_gone_is_killed_all_the_same(tmp_path: Path, dead_pid: int) -> None:
    run = write_killed_run(tmp_path / "r", tmp_path / "gone", dead_pid, {"rank0.log": LOG})
    recording = load(run)
    assert (recording.manifest.status, len(recording.processes), recording.unobserved) == (
        "killed",
        1,
        (),
    )


def test_a_folder_that_is_no_spool_is_left_alone(tmp_path: Path, dead_pid: int) -> None:
    precious_folder = tmp_path / "precious"
    (precious_folder / "windows").mkdir(parents=True)
    (precious_folder / "rank0.log").write_bytes(LOG)
    (precious_folder / "windows" / "rank0-step1.json").write_text("{}")
    recording = load(write_killed_run(tmp_path / "r", precious_folder, dead_pid))
    assert recording.processes == ()
    assert (precious_folder / "rank0.log").exists()
    assert (precious_folder / "windows" / "rank0-step1.json").exists()


@pytest.mark.parametrize("code", [13, 28, 30])  # no permission, no space, read-only
def test_a_killed_run_in_a_folder_that_cannot_be_written_is_read(
    tmp_path: Path, spool: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    run = write_killed_run(tmp_path / "r", spool, dead_pid, {"rank0.log": LOG[:300]})
    (spool / "rank0.log").write_bytes(LOG)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", refuse(code))
        patch.setattr(recovery, "copyfileobj", refuse(code))
        patch.setattr(Path, "write_text", refuse(code))
        recording = load(run)
    assert recording.manifest.status == "killed"
    assert recording.processes[0].end == 30_000
    assert recording.unobserved == (
        Unobserved(f"what is left in {spool}", f"{os.strerror(code)}: somewhere"),
    )
    assert (spool / "rank0.log").read_bytes() == LOG
    assert sorted(path.name for path in (run / "logs").iterdir()) == ["rank0.log"]
    assert load(run).unobserved == ()  # once it can be written


def test_a_manifest_that_cannot_be_written_is_no_error(
    tmp_path: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_killed_run(tmp_path / "r", tmp_path / "gone", dead_pid)
    monkeypatch.setattr(Path, "write_text", refuse(30))
    assert load(run).manifest.status == "killed"
    assert read_manifest(run)["status"] == "running"


@pytest.fixture
def writer(spool: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds a log as a recorder does, and add frames to it at a word."""
    code = (
        "import fcntl, sys\n"
        "log = open(sys.argv[1], 'ab', buffering=0)\n"
        "fcntl.flock(log, fcntl.LOCK_EX)\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin: log.write(bytes.fromhex(line)); print('written', flush=True)\n"
    )
    arguments = [sys.executable, "-c", code, str(spool / "rank0.log")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, **pipes) as process:
        send_frame(process, None)
        yield process
        process.kill()


def send_frame(process: subprocess.Popen[str], frame: bytes | None) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    if frame is not None:
        process.stdin.write(frame.hex() + "\n")
        process.stdin.flush()
    assert process.stdout.readline()


def test_a_training_that_goes_on_without_its_launcher_is_running(
    tmp_path: Path, spool: Path, dead_pid: int, writer: subprocess.Popen[str]
) -> None:
    run = write_killed_run(tmp_path / "r", spool, dead_pid)
    for number, frame in enumerate(drawing.training()[:5]):
        send_frame(writer, frame)
        recording = load(run)
        assert recording.manifest.status == "running"
        assert (spool / "rank0.log").exists()
        assert len(read_frames(spool)) == number + 1
    send_frame(writer, LOG[:20])  # half a frame: it is being written, so nothing is missing
    recording = load(run)
    assert recording.unobserved == ()
    assert len(recording.processes[0].marks) == 4
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    recording = load(run)
    assert (recording.manifest.status, len(recording.processes[0].marks)) == ("killed", 4)
    assert [gap.what for gap in recording.unobserved] == ["the end of rank0.log"]
    assert not spool.exists()


def read_frames(spool: Path) -> list[wire.Frame]:
    return wire.frames((spool / "rank0.log").read_bytes())[0]


def test_a_run_whose_launcher_lives_is_running(tmp_path: Path, spool: Path) -> None:
    (spool / "rank0.log").write_bytes(LOG)
    run = write_killed_run(tmp_path / "r", spool, os.getpid())
    recording = load(run)
    assert (recording.manifest.status, len(recording.processes)) == ("running", 1)
    assert (spool / "rank0.log").exists()
    assert read_manifest(run)["status"] == "running"


def test_a_number_that_was_given_to_another_process_is_not_the_launcher(
    tmp_path: Path, spool: Path
) -> None:
    run = write_killed_run(tmp_path / "r", spool, os.getpid())
    document = manifest.read(run)
    assert liveness.goes_on(document, run)
    text = read_manifest(run) | {"started_unix_ns": 1_000_000_000}  # long before we began
    (run / "run.json").write_text(json.dumps(text))
    assert not liveness.goes_on(manifest.read(run), run)


@pytest.mark.parametrize("pid", [-5, 1 << 40])
def test_a_number_that_is_no_process_is_not_alive(tmp_path: Path, spool: Path, pid: int) -> None:
    assert not liveness.goes_on(
        manifest.read(write_killed_run(tmp_path / "r", spool, pid)), tmp_path
    )


def test_of_another_host_only_the_age_of_the_logs_tells(tmp_path: Path) -> None:
    far_fields = {
        "status": "running",
        "host": "elsewhere",
        "launcher": os.getpid(),
        "exit_code": None,
    }
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG}, **far_fields)
    assert load(run).manifest.status == "running"
    long_ago = time.time() - 120
    os.utime(run / "logs" / "rank0.log", (long_ago, long_ago))
    assert load(run).manifest.status == "killed"


def test_files_that_go_while_they_are_looked_at_are_no_error(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch, dead_pid: int
) -> None:
    (spool / "rank0.log").write_bytes(LOG)
    run = write_killed_run(tmp_path / "r", spool, dead_pid, {"rank0.log": LOG})
    far_run = drawing.write_run(
        tmp_path / "far", {"rank0.log": LOG}, status="running", host="elsewhere"
    )
    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", always_give(far_run / "logs" / "gone.log"))
        assert not liveness.goes_on(manifest.read(far_run), far_run)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", refuse(2))
        assert not liveness.goes_on(manifest.read(run), run)
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse(2))
        assert not liveness.goes_on(manifest.read(run), run)


def test_a_log_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG, "rank1.log": LOG})
    read_file = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "rank0.log":
            raise PermissionError(13, "Permission denied")
        return read_file(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_bytes)
        recording = load(run)
    assert (len(recording.processes), recording.unobserved) == (
        1,
        (Unobserved("rank0.log", "Permission denied"),),
    )


def test_logs_that_go_or_are_refused_while_they_are_looked_for_are_passed_over(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spool / "rank0.log").write_bytes(LOG)
    (tmp_path / "r" / "logs").mkdir(parents=True)
    (tmp_path / "r" / "logs" / "rank0.log").write_bytes(LOG)
    assert recovery.find_logs(tmp_path / "r", spool) == [tmp_path / "r" / "logs" / "rank0.log"]
    assert not is_log(tmp_path / "gone.log")
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "_files", always_give(tmp_path / "gone.log"))
        assert recovery.find_logs(tmp_path / "r", None) == [tmp_path / "gone.log"]
    monkeypatch.setattr(Path, "glob", refuse(13))
    assert recovery.find_logs(tmp_path / "r", spool) == []


def test_links_in_a_run_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_bytes(LOG)
    run = drawing.write_run(tmp_path / "r", {})
    (run / "logs" / "rank0.log").symlink_to(tmp_path / "secret.log")
    assert load(run).processes == ()


def test_a_log_is_read_while_it_is_written(tmp_path: Path, spool: Path) -> None:
    run = write_killed_run(tmp_path / "r", spool, os.getpid())
    frames = [drawing.process(), *[drawing.marks(drawing.step(n, n, n + 1)) for n in range(2_000)]]
    stop = threading.Event()

    def write() -> None:
        with (spool / "rank0.log").open("ab", buffering=0) as log:
            for frame in frames:
                log.write(frame)
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    counts: list[int] = []
    while not stop.is_set():
        recording = load(run)
        assert recording.unobserved == ()
        counts += [len(process.marks) for process in recording.processes]
    thread.join()
    assert counts == sorted(counts)
    assert len(load(run).processes[0].marks) == 2_000


def test_finish_derives_the_database(tmp_path: Path) -> None:
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG})
    assert finish(run).unobserved == ()
    assert (run / "run.sqlite").exists()


def test_finish_says_why_there_is_no_database(tmp_path: Path) -> None:
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG})
    (run / "run.sqlite").mkdir()
    (gap,) = finish(run).unobserved
    assert gap.what == "run.sqlite"
    assert "Is a directory" in gap.why


def test_what_is_unknown_in_a_manifest_stays(tmp_path: Path, spool: Path, dead_pid: int) -> None:
    run = write_killed_run(tmp_path / "r", spool, dead_pid)
    (run / "run.json").write_text(json.dumps(read_manifest(run) | {"note": "mine"}))
    load(run)
    assert (read_manifest(run)["note"], read_manifest(run)["version"]) == ("mine", 1)
    assert [path.name for path in run.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("code", "status"), [(0, "finished"), (3, "failed"), (-9, "killed"), (None, "killed")]
)
def test_a_run_whose_launcher_left_ended_as_its_command_did(
    tmp_path: Path, dead_pid: int, code: int | None, status: str
) -> None:
    fields = {"status": "running", "launcher": dead_pid, "host": HOST, "exit_code": code}
    run = drawing.write_run(tmp_path / "r", {"rank0.log": LOG}, **fields)
    assert load(run).manifest.status == status


def test_logs_that_may_not_be_listed_are_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = drawing.write_run(tmp_path / "2026-a", {})

    def refuse(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert Unobserved("logs", "Permission denied") in load(run).unobserved
