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
from gapless.launch import carrying
from gapless.launch.unseen import Journal
from gapless.payload import sink
from gapless.store.recordings import load
from tests.launch import starting

WRITES = (
    'printf "%s" "$0" >> "$GAPLESS_SPOOL/rank0.log"; mkdir -p "$GAPLESS_SPOOL/windows"; '
    'printf "{}" > "$GAPLESS_SPOOL/windows/rank0-step5.json"; sleep 1.2; '
)


def writes(then: str) -> list[str]:
    return ["bash", "-c", WRITES + then, "a log"]


def test_logs_and_windows_come_home(tmp_path: Path) -> None:
    starting.run(writes('printf " and more" >> "$GAPLESS_SPOOL/rank0.log"'), tmp_path)
    home = starting.folder(tmp_path)
    assert (home / "logs" / "rank0.log").read_text() == "a log and more"
    assert igzip.decompress((home / "windows" / "rank0-step5.json.gz").read_bytes()) == b"{}"


def test_a_run_folder_that_vanished_comes_back(tmp_path: Path) -> None:
    done = starting.run(writes("rm -rf .gapless; exit 4"), tmp_path)
    assert done.returncode == 4
    home = starting.folder(tmp_path)
    assert (home / "logs" / "rank0.log").read_text() == "a log"
    assert json.loads((home / "run.json").read_text())["exit_code"] == 4


def test_a_working_folder_that_was_removed_is_no_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone}; rmdir {gone}; {" ".join(starting.GAPLESS)} run bash -c "sleep 1; exit 4"'
    done = starting.plain(["bash", "-c", script], tmp_path)
    assert done.returncode == 4
    assert b"mistake" not in done.stderr
    assert b"gapless: what was seen is in /" in done.stderr
    assert b"the command failed with exit code 4; nothing was recorded" in done.stderr


def test_a_training_left_in_the_background_is_still_recorded(tmp_path: Path) -> None:
    """Its log is locked as long as it lives; the spool stays until somebody reads the run."""
    spools = tmp_path / "spools"
    spools.mkdir()
    holds = (
        "import fcntl, os, time\n"
        "log = open(os.environ['GAPLESS_SPOOL'] + '/rank0.log', 'wb', buffering=0)\n"
        "fcntl.flock(log, fcntl.LOCK_EX)\n"
        "open('up', 'w').close()\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.02)\n"
        "log.write(b'late')\n"
        "open('ended', 'w').close()\n"
    )
    (tmp_path / "holds.py").write_text(holds)
    script = f"{sys.executable} holds.py >/dev/null 2>&1 & while test ! -e up; do sleep 0.05; done"
    given = {**os.environ, "TMPDIR": str(spools)}
    done = starting.run(["bash", "-c", script], tmp_path, env=given)
    assert done.returncode == 0
    home = starting.folder(tmp_path)
    told = json.loads((home / "run.json").read_text())
    assert (told["status"], told["exit_code"]) == ("running", 0)
    (spool,) = spools.glob("gapless-spool-*")
    assert told["spool"] == str(spool)
    assert b"goes on" in done.stderr
    (tmp_path / "go").touch()
    starting.until((tmp_path / "ended").exists)
    assert (spool / "rank0.log").read_bytes() == b"late"


@pytest.mark.parametrize(("left", "awaited"), [("python", True), ("sleep", False)])
def test_a_python_left_in_the_background_may_train_later(
    tmp_path: Path, left: str, awaited: bool
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
    command = {"python": f"{sys.executable} waits.py", "sleep": "sleep 3"}[left]
    script = f"{command} >/dev/null 2>&1 &"
    given = {**os.environ, "TMPDIR": str(spools)}
    done = starting.run(["bash", "-c", script], tmp_path, env=given)
    assert done.returncode == 0
    home = starting.folder(tmp_path)
    assert (b"nothing was recorded yet" in done.stderr) is awaited
    assert load(home).manifest.status == ("running" if awaited else "finished")
    assert bool(list(spools.iterdir())) is awaited
    if awaited:
        (tmp_path / "go").touch()
        starting.until((tmp_path / "ended").exists)
        starting.until(lambda: load(home).manifest.status == "finished")
        assert (home / "logs" / "rank0.log").read_bytes() == late


def test_where_no_folder_can_be_made_another_is(tmp_path: Path) -> None:
    (tmp_path / ".gapless").write_text("a file in its place")
    spools = tmp_path / "spools"
    spools.mkdir()
    given = {**os.environ, "TMPDIR": str(spools)}
    done = starting.run(writes("echo out; exit 4"), tmp_path, env=given)
    assert (done.returncode, done.stdout) == (4, b"out\n")
    (home,) = spools.glob("gapless-run-*/*")
    assert (home / "logs" / "rank0.log").read_text() == "a log"
    assert str(home.relative_to(tmp_path)).encode() in done.stderr
    assert "Not a directory" in starting.unseen(home)["run folder"]


def test_without_a_place_for_the_spool_the_command_runs_unrecorded(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from gapless import cli\n"
        "def full(*_):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "os.mkdir = full\n"
        "sys.exit(cli.main(['run', 'bash', '-c', 'echo ${GAPLESS_SPOOL-unset}; exit 4']))\n"
    )
    done = starting.plain([sys.executable, "-c", program], tmp_path)
    assert (done.returncode, done.stdout) == (4, b"unset\n")
    assert b"No space left on device" in done.stderr


def test_a_limit_on_the_size_of_files_is_no_fault(tmp_path: Path) -> None:
    script = f'ulimit -f 1; {" ".join(starting.GAPLESS)} run bash -c "sleep 3; echo out; exit 4"'
    done = starting.plain(["bash", "-c", script], tmp_path)
    assert (done.returncode, done.stdout) == (4, b"out\n")
    assert b"Traceback" not in done.stderr


def journal(tmp_path: Path) -> Journal:
    spool = tmp_path / "spool"
    (spool / "windows").mkdir(parents=True)
    return Journal(spool)


def test_carrying_goes_on_where_it_stopped(tmp_path: Path) -> None:
    notes = journal(tmp_path)
    home = tmp_path / "home"
    carrier = carrying.Carrier(notes.spool, home, notes)
    home.write_text("in the way")  # as good as a disk that can only be read
    (notes.spool / "rank0.log").write_bytes(b"one")
    (notes.spool / "windows" / "rank0-step1.json").write_bytes(b"{}")
    assert not carrier.sweep()
    assert {unseen.what for unseen in notes.noted()} == {"run folder", "windows"}
    home.unlink()
    assert not carrier.sweep()  # the window waits for half a minute
    assert (home / "logs" / "rank0.log").read_bytes() == b"one"
    (notes.spool / "rank0.log").write_bytes(b"one two")
    assert carrier.sweep(last=True)
    assert (home / "logs" / "rank0.log").read_bytes() == b"one two"
    assert (home / "windows" / "rank0-step1.json.gz").exists()
    assert not (notes.spool / "windows" / "rank0-step1.json").exists()


def test_what_a_killed_worker_left_half_is_carried_and_its_successor_damages_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = journal(tmp_path)
    home = tmp_path / "home"
    carrier = carrying.Carrier(notes.spool, home, notes)
    one = wire.text_frame(wire.FACT, {"id": 1, "pad": "x" * 100})
    (notes.spool / "rank0-worker0.log").write_bytes(one + one[:50])
    assert carrier.sweep()
    monkeypatch.setattr(sink, "AGAIN_NS", 0)
    names = ["rank0-worker0", "rank0-worker0-2"]
    for _ in range(3):  # workers, one after the other
        assert sink.claim(str(notes.spool), names) == "rank0-worker0-2"
        assert sink.append([one]) == 1
        sink.close()
        assert carrier.sweep()
    logs = sorted(path.name for path in (home / "logs").iterdir())
    assert logs == ["rank0-worker0-2.log", "rank0-worker0.log"]
    for name in logs:
        assert (home / "logs" / name).read_bytes() == (notes.spool / name).read_bytes()
    frames, length = wire.frames((home / "logs" / logs[0]).read_bytes())
    assert (len(frames), length) == (3, 3 * len(one))


def test_windows_that_are_being_saved_are_left(tmp_path: Path) -> None:
    notes = journal(tmp_path)
    (notes.spool / "windows" / "rank0-step1.json.part").write_bytes(b"{")
    assert carrying.Carrier(notes.spool, tmp_path / "home", notes).sweep()
    assert carrying.saving(notes.spool) == 2
    assert not (tmp_path / "home").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """Give a disk of 64 KiB, where one may be made."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("only root may mount")
    yield place
    subprocess.run(["/bin/umount", "-l", place], check=True)


def test_a_full_disk_is_written_to_once_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    notes = journal(tmp_path)
    whole = b"".join(wire.text_frame(wire.FACT, {"id": n, "pad": "x" * 1000}) for n in range(100))
    (notes.spool / "rank0.log").write_bytes(whole)
    other = small_disk / "other"
    other.write_bytes(bytes(16 << 10))
    carrier = carrying.Carrier(notes.spool, small_disk / "home", notes)
    assert not carrier.sweep()
    assert "No space left" in notes.noted()[0].why
    carried = (small_disk / "home" / "logs" / "rank0.log").read_bytes()
    assert 0 < len(carried) < len(whole)
    assert whole.startswith(carried)
    assert wire.frames(carried)[1] > 0
    other.unlink()
    subprocess.run(["/bin/mount", "-o", "remount,size=1m", small_disk], check=True)
    assert carrier.sweep()
    assert (small_disk / "home" / "logs" / "rank0.log").read_bytes() == whole


@pytest.mark.parametrize("which", ["out", "TMPDIR"])
def test_a_full_disk_changes_nothing_for_the_command(
    which: str, small_disk: Path, tmp_path: Path
) -> None:
    (small_disk / "full").write_bytes(bytes(56 << 10))
    roomy = tmp_path / "roomy"
    roomy.mkdir()
    places = {"out": small_disk, "TMPDIR": roomy} if which == "out" else {"TMPDIR": small_disk}
    script = 'head -c 40000 /dev/zero >> "$GAPLESS_SPOOL/rank0.log"; sleep 2; echo out; exit 4'
    own = ("--out", str(places["out"])) if which == "out" else ()
    given = {**os.environ, "TMPDIR": str(places["TMPDIR"])}
    done = starting.run(["bash", "-c", script + " 2>&1"], tmp_path, *own, env=given)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (4, [b"out"])
    if which == "out":  # all of it is where there was room
        (home,) = roomy.glob("gapless-run-*/*")
        assert (home / "logs" / "rank0.log").stat().st_size == 40000
        assert str(home.relative_to(tmp_path)).encode() in done.stderr


def test_the_spool_is_removed_whole(tmp_path: Path) -> None:
    notes = journal(tmp_path)
    (notes.spool / "windows" / "rank0-step1.json.part").write_bytes(b"{")
    notes.note("x", "y")
    carrying.remove(notes.spool)
    assert not notes.spool.exists()
    shutil.rmtree(tmp_path)
