"""``gapless check``: enough is recorded, the command ends, nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gapless import wire
from gapless.launch.run import checking
from tests.launch import starting

# Pretends to train: writes the frames named on its command line, then waits.
TRAINS = """
import os, sys, time
from gapless import wire
log = open(os.environ['GAPLESS_SPOOL'] + '/rank0.log', 'ab', buffering=0)
log.write(wire.text_frame(wire.PROCESS, {'pid': os.getpid(), 'role': 'training'}))
for name in sys.argv[1:]:
    time.sleep(0.3)
    kind = {'window': wire.WINDOW, 'end': wire.END}[name]
    log.write(wire.text_frame(kind, {'number': 0, 'how': 'check'}))
print(os.getpid(), flush=True)
"""
GOES_ON = TRAINS + "time.sleep(300)\n"


def check(
    tmp_path: Path, program: str, *words: str, seconds: str = "20"
) -> subprocess.CompletedProcess[bytes]:
    """Check a program; a check that does not end by itself is an error."""
    command = [*starting.GAPLESS, "check", "--seconds", seconds, sys.executable, "-c", program]
    return starting.run_plainly([*command, *words], tmp_path)


def read_manifest(tmp_path: Path) -> dict[str, object]:
    return json.loads((starting.run_folder(tmp_path) / "run.json").read_text())


def test_a_training_that_leaves_by_itself_is_well(tmp_path: Path) -> None:
    process = check(tmp_path, TRAINS, "window", "end")
    assert process.returncode == 0
    manifest = read_manifest(tmp_path)
    assert (manifest["status"], manifest["stopped_by"], manifest["exit_code"]) == (
        "finished",
        "check",
        0,
    )


def test_a_training_that_comes_to_its_own_end_is_let_end(tmp_path: Path) -> None:
    program = TRAINS.replace("'how': 'check'", "'how': 'exit'") + "time.sleep(1.5)\nsys.exit(0)\n"
    process = check(tmp_path, program, "window", "end")
    assert process.returncode == 0
    manifest = read_manifest(tmp_path)
    assert (manifest["status"], manifest["stopped_by"], manifest["exit_code"]) == (
        "finished",
        None,
        0,
    )


def test_a_script_that_goes_on_after_its_training_is_ended(tmp_path: Path) -> None:
    (tmp_path / "trains.py").write_text(TRAINS)
    script = f"{sys.executable} trains.py window end; sleep 300; echo never"
    process = starting.run_plainly([*starting.GAPLESS, "check", "bash", "-c", script], tmp_path)
    assert process.returncode == 0
    assert b"never" not in process.stdout
    assert read_manifest(tmp_path)["stopped_by"] == "check"


def test_without_a_window_the_time_ends_it(tmp_path: Path) -> None:
    process = check(tmp_path, GOES_ON, seconds="2")
    assert process.returncode == 0  # it stepped
    assert not starting.is_alive(int(process.stdout))


def test_a_command_in_which_nothing_is_seen_ends_with_2(tmp_path: Path) -> None:
    process = check(tmp_path, "import time; time.sleep(300)", seconds="1")
    assert process.returncode == 2
    assert b"nothing was recorded: no Python process was seen to load PyTorch" in process.stderr


def test_a_command_that_fails_before_keeps_its_code(tmp_path: Path) -> None:
    process = check(tmp_path, "raise SystemExit(7)")
    assert process.returncode == 7
    assert check(tmp_path, "pass").returncode == 2


def test_what_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_GRACE_S", 0.3)
    spool = tmp_path / "gapless-spool"
    spool.mkdir()
    env = {**os.environ, wire.SPOOL: str(spool)}
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    stubborn = subprocess.Popen(["/bin/bash", "-c", script], env=env, stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    hidden = subprocess.Popen(["/bin/sleep", "300"], env={})
    stranger = subprocess.Popen(["/bin/sleep", "300"])
    checking.end_tree(spool, lambda: [hidden.pid])
    assert stubborn.wait(starting.PATIENCE_S) == -signal.SIGKILL
    assert hidden.wait(starting.PATIENCE_S) == -signal.SIGTERM
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    stubborn.stdout.close()


def test_workers_are_left_to_their_training(tmp_path: Path) -> None:
    """A worker that is told to end makes its training print an error."""
    spool = tmp_path / "gapless-spool"
    spool.mkdir()
    env = {**os.environ, wire.SPOOL: str(spool)}
    script = "trap 'echo told; exit' TERM; echo up; while :; do sleep 0.05; done"
    worker = subprocess.Popen(["/bin/bash", "-c", script], env=env, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    line = wire.text_frame(wire.PROCESS, {"pid": worker.pid, "role": "worker"})
    (spool / "rank0-worker0.log").write_bytes(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "_GRACE_S", 0.3)
        checking.end_tree(spool, list)
    assert worker.stdout.read() == b""
    assert worker.wait(starting.PATIENCE_S) == -signal.SIGKILL
    worker.stdout.close()


def test_a_half_written_frame_is_read_once_it_is_whole(tmp_path: Path) -> None:
    progress = checking.CheckProgress()
    frame = wire.text_frame(wire.WINDOW, {"number": 0})
    log = tmp_path / "rank0.log"
    log.write_bytes(frame + frame[:9])
    progress.look(tmp_path)
    assert progress.windows == 1
    log.write_bytes(frame + frame + wire.text_frame(wire.WINDOW, {"discarded": "by the user's"}))
    progress.look(tmp_path)
    assert progress.windows == 2
