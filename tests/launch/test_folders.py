"""Folders that are full, read-only or gone: the command does not notice, what can be saved is."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from isal import igzip

from gapless import wire
from gapless.launch.run import spool_transfer
from gapless.launch.unobserved import Journal
from gapless.payload.log import sink
from gapless.store.run.recordings import load
from tests.launch import starting

WRITES = (
    'printf "%s" "$0" >> "$GAPLESS_SPOOL/rank0.log"; mkdir -p "$GAPLESS_SPOOL/windows"; '
    'printf "{}" > "$GAPLESS_SPOOL/windows/rank0-step5.json"; sleep 1.2; '
)


def writing_command(script_end: str) -> list[str]:
    return ["bash", "-c", WRITES + script_end, "a log"]


def test_logs_and_windows_come_home(tmp_path: Path) -> None:
    starting.run(writing_command('printf " and more" >> "$GAPLESS_SPOOL/rank0.log"'), tmp_path)
    run_folder = starting.run_folder(tmp_path)
    assert (run_folder / "logs" / "rank0.log").read_text() == "a log and more"
    assert igzip.decompress((run_folder / "windows" / "rank0-step5.json.gz").read_bytes()) == b"{}"


def test_a_run_folder_that_vanished_comes_back(tmp_path: Path) -> None:
    process = starting.run(writing_command("rm -rf .gapless; exit 4"), tmp_path)
    assert process.returncode == 4
    run_folder = starting.run_folder(tmp_path)
    assert (run_folder / "logs" / "rank0.log").read_text() == "a log"
    assert json.loads((run_folder / "run.json").read_text())["exit_code"] == 4


def test_a_working_folder_that_was_removed_is_no_fault(tmp_path: Path) -> None:
    removed_folder = tmp_path / "gone"
    removed_folder.mkdir()
    record = f'{" ".join(starting.GAPLESS)} run bash -c "sleep 1; exit 4"'
    script = f"cd {removed_folder}; rmdir {removed_folder}; {record}"
    process = starting.run_plainly(["bash", "-c", script], tmp_path)
    assert process.returncode == 4
    assert b"mistake" not in process.stderr
    assert b"gapless: what was seen is in /" in process.stderr
    assert b"the command failed with exit code 4; nothing was recorded" in process.stderr


def test_a_training_left_in_the_background_is_still_recorded(tmp_path: Path) -> None:
    """Its log is locked as long as it lives; the spool stays until somebody reads the run."""
    spools = tmp_path / "spools"
    spools.mkdir()
    program = (
        "import fcntl, os, time\n"
        "log = open(os.environ['GAPLESS_SPOOL'] + '/rank0.log', 'wb', buffering=0)\n"
        "fcntl.flock(log, fcntl.LOCK_EX)\n"
        "open('up', 'w').close()\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.02)\n"
        "log.write(b'late')\n"
        "open('ended', 'w').close()\n"
    )
    (tmp_path / "holds.py").write_text(program)
    script = f"{sys.executable} holds.py >/dev/null 2>&1 & while test ! -e up; do sleep 0.05; done"
    env = {**os.environ, "TMPDIR": str(spools)}
    process = starting.run(["bash", "-c", script], tmp_path, env=env)
    assert process.returncode == 0
    run_folder = starting.run_folder(tmp_path)
    manifest = json.loads((run_folder / "run.json").read_text())
    assert (manifest["status"], manifest["exit_code"]) == ("running", 0)
    (spool,) = spools.glob("gapless-spool-*")
    assert manifest["spool"] == str(spool)
    assert b"still running" in process.stderr
    (tmp_path / "go").touch()
    starting.wait_until((tmp_path / "ended").exists)
    assert (spool / "rank0.log").read_bytes() == b"late"


@pytest.mark.parametrize(("survivor", "awaited"), [("python", True), ("sleep", False)])
def test_a_python_left_in_the_background_may_train_later(
    tmp_path: Path, survivor: str, awaited: bool
) -> None:
    spools = tmp_path / "spools"
    spools.mkdir()
    (tmp_path / "waits.py").write_text(
        "import os, shutil, time\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.02)\n"
        "shutil.copy('late', os.environ['GAPLESS_SPOOL'] + '/rank0.log')\n"
        "open('ended', 'w').close()\n"
    )
    late = wire.text_frame(wire.END, {"ns": 1, "how": "exit"})
    (tmp_path / "late").write_bytes(late)
    command = {"python": f"{sys.executable} waits.py", "sleep": "sleep 3"}[survivor]
    script = f"{command} >/dev/null 2>&1 &"
    env = {**os.environ, "TMPDIR": str(spools)}
    process = starting.run(["bash", "-c", script], tmp_path, env=env)
    assert process.returncode == 0
    run_folder = starting.run_folder(tmp_path)
    assert (b"nothing was recorded yet" in process.stderr) is awaited
    assert load(run_folder).manifest.status == ("running" if awaited else "finished")
    assert bool(list(spools.iterdir())) is awaited
    if awaited:
        (tmp_path / "go").touch()
        starting.wait_until((tmp_path / "ended").exists)
        starting.wait_until(lambda: load(run_folder).manifest.status == "finished")
        assert (run_folder / "logs" / "rank0.log").read_bytes() == late


def test_where_no_folder_can_be_made_another_is(tmp_path: Path) -> None:
    (tmp_path / ".gapless").write_text("a file in its place")
    spools = tmp_path / "spools"
    spools.mkdir()
    env = {**os.environ, "TMPDIR": str(spools)}
    process = starting.run(writing_command("echo out; exit 4"), tmp_path, env=env)
    assert (process.returncode, process.stdout) == (4, b"out\n")
    (run_folder,) = spools.glob("gapless-run-*/*")
    assert (run_folder / "logs" / "rank0.log").read_text() == "a log"
    assert str(run_folder.relative_to(tmp_path)).encode() in process.stderr
    assert "Not a directory" in starting.read_unobserved(run_folder)["run folder"]


def test_without_a_place_for_the_spool_the_command_runs_unrecorded(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from gapless import cli\n"
        "def full(*_):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "os.mkdir = full\n"
        "sys.exit(cli.main(['run', 'bash', '-c', 'echo ${GAPLESS_SPOOL-unset}; exit 4']))\n"
    )
    process = starting.run_plainly([sys.executable, "-c", program], tmp_path)
    assert (process.returncode, process.stdout) == (4, b"unset\n")
    assert b"No space left on device" in process.stderr


def test_a_limit_on_the_size_of_files_is_no_fault(tmp_path: Path) -> None:
    script = f'ulimit -f 1; {" ".join(starting.GAPLESS)} run bash -c "sleep 3; echo out; exit 4"'
    process = starting.run_plainly(["bash", "-c", script], tmp_path)
    assert (process.returncode, process.stdout) == (4, b"out\n")
    assert b"Traceback" not in process.stderr


def make_journal(tmp_path: Path) -> Journal:
    spool = tmp_path / "spool"
    (spool / "windows").mkdir(parents=True)
    return Journal(spool)


def test_carrying_goes_on_where_it_stopped(tmp_path: Path) -> None:
    journal = make_journal(tmp_path)
    run_folder = tmp_path / "home"
    transfer = spool_transfer.SpoolTransfer(journal.spool, run_folder, journal)
    run_folder.write_text("in the way")  # as good as a disk that can only be read
    (journal.spool / "rank0.log").write_bytes(b"one")
    (journal.spool / "windows" / "rank0-step1.json").write_bytes(b"{}")
    assert not transfer.sweep()
    assert {gap.what for gap in journal.list_unobserved()} == {"run folder", "windows"}
    run_folder.unlink()
    assert not transfer.sweep()  # the window waits for half a minute
    assert (run_folder / "logs" / "rank0.log").read_bytes() == b"one"
    (journal.spool / "rank0.log").write_bytes(b"one two")
    assert transfer.sweep(is_last=True)
    assert (run_folder / "logs" / "rank0.log").read_bytes() == b"one two"
    assert (run_folder / "windows" / "rank0-step1.json.gz").exists()
    assert not (journal.spool / "windows" / "rank0-step1.json").exists()


def test_what_a_killed_worker_left_half_is_carried_and_its_successor_damages_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = make_journal(tmp_path)
    run_folder = tmp_path / "home"
    transfer = spool_transfer.SpoolTransfer(journal.spool, run_folder, journal)
    frame = wire.text_frame(wire.FACT, {"id": 1, "pad": "x" * 100})
    (journal.spool / "rank0-worker0.log").write_bytes(frame + frame[:50])
    assert transfer.sweep()
    monkeypatch.setattr(sink, "AGAIN_NS", 0)
    names = ["rank0-worker0", "rank0-worker0-2"]
    for _ in range(3):  # workers, one after the other
        assert sink.claim(str(journal.spool), names) == "rank0-worker0-2"
        assert sink.append([frame]) == 1
        sink.close()
        assert transfer.sweep()
    logs = sorted(path.name for path in (run_folder / "logs").iterdir())
    assert logs == ["rank0-worker0-2.log", "rank0-worker0.log"]
    for name in logs:
        assert (run_folder / "logs" / name).read_bytes() == (journal.spool / name).read_bytes()
    frames, length = wire.frames((run_folder / "logs" / logs[0]).read_bytes())
    assert (len(frames), length) == (3, 3 * len(frame))


def test_windows_that_are_being_saved_are_left(tmp_path: Path) -> None:
    journal = make_journal(tmp_path)
    (journal.spool / "windows" / "rank0-step1.json.part").write_bytes(b"{")
    assert spool_transfer.SpoolTransfer(journal.spool, tmp_path / "home", journal).sweep()
    assert spool_transfer.count_unsaved_bytes(journal.spool) == 2
    assert not (tmp_path / "home").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """Return a disk of 64 KiB, where one may be made."""
    disk = tmp_path / "small"
    disk.mkdir()
    mount = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk],
        capture_output=True,
        check=False,
    )
    if mount.returncode:
        pytest.skip("only root may mount")
    yield disk
    subprocess.run(["/bin/umount", "-l", disk], check=True)


def test_a_full_disk_is_written_to_once_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    journal = make_journal(tmp_path)
    log_bytes = b"".join(
        wire.text_frame(wire.FACT, {"id": n, "pad": "x" * 1000}) for n in range(100)
    )
    (journal.spool / "rank0.log").write_bytes(log_bytes)
    filler = small_disk / "other"
    filler.write_bytes(bytes(16 << 10))
    transfer = spool_transfer.SpoolTransfer(journal.spool, small_disk / "home", journal)
    assert not transfer.sweep()
    assert "No space left" in journal.list_unobserved()[0].why
    carried_bytes = (small_disk / "home" / "logs" / "rank0.log").read_bytes()
    assert 0 < len(carried_bytes) < len(log_bytes)
    assert log_bytes.startswith(carried_bytes)
    assert wire.frames(carried_bytes)[1] > 0
    filler.unlink()
    subprocess.run(["/bin/mount", "-o", "remount,size=1m", small_disk], check=True)
    assert transfer.sweep()
    assert (small_disk / "home" / "logs" / "rank0.log").read_bytes() == log_bytes


@pytest.mark.parametrize("full_target", ["out", "TMPDIR"])
def test_a_full_disk_changes_nothing_for_the_command(
    full_target: str, small_disk: Path, tmp_path: Path
) -> None:
    (small_disk / "full").write_bytes(bytes(56 << 10))
    roomy = tmp_path / "roomy"
    roomy.mkdir()
    folders = (
        {"out": small_disk, "TMPDIR": roomy} if full_target == "out" else {"TMPDIR": small_disk}
    )
    script = 'head -c 40000 /dev/zero >> "$GAPLESS_SPOOL/rank0.log"; sleep 2; echo out; exit 4'
    options = ("--out", str(folders["out"])) if full_target == "out" else ()
    env = {**os.environ, "TMPDIR": str(folders["TMPDIR"])}
    process = starting.run(["bash", "-c", script + " 2>&1"], tmp_path, *options, env=env)
    assert (process.returncode, process.stdout.splitlines()[-1:]) == (4, [b"out"])
    if full_target == "out":  # all of it is where there was room
        (run_folder,) = roomy.glob("gapless-run-*/*")
        assert (run_folder / "logs" / "rank0.log").stat().st_size == 40000
        assert str(run_folder.relative_to(tmp_path)).encode() in process.stderr


def test_the_spool_is_removed_whole(tmp_path: Path) -> None:
    journal = make_journal(tmp_path)
    (journal.spool / "windows" / "rank0-step1.json.part").write_bytes(b"{")
    journal.note("x", "y")
    spool_transfer.remove(journal.spool)
    assert not journal.spool.exists()
    shutil.rmtree(tmp_path)
