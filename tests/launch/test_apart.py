"""An arm of a trial runs apart, and nothing of it is left, however it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gapless.launch import process_tree
from gapless.launch.environment import RecorderSettings
from gapless.launch.run_spec import RunSpec
from gapless.launch.trial.isolated import IsolatedOutcome, IsolatedRun, run
from gapless.store.run.recordings import load
from tests.waiting import PATIENCE_S, wait_until

TESTS = Path(__file__).parent
STAGES = ("before_torch", "in_the_first_batch", "in_steps", "at_exit")
PLAN = {"stop": 10, "seconds": 60, "seed": 0, "losses": 4, "batches": 4, "close": True}


def run_isolated(
    folder: Path, *command: str, deadline_s: float = 240.0, **plan: object
) -> IsolatedOutcome:
    settings = RecorderSettings(windows=False, trial={**PLAN, **plan})
    spec = RunSpec(command, folder / "runs", settings)
    return run(
        IsolatedRun(spec, folder / "output", deadline_s, variables={"ONE": "1", "HOME": None})
    )


def spools() -> list[Path]:
    return list(Path(os.environ["TMPDIR"]).glob("gapless-spool-*"))


def find_alive(mark: str) -> list[int]:
    """Return the processes whose environment names this test."""
    entry = f"HERE={mark}".encode()
    pids: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        status = process_tree.read(Path("/proc"), int(path.name))
        try:
            is_ours = entry in (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_ours and status is not None and not status.is_over and int(path.name) != os.getpid():
            pids.append(int(path.name))
    return pids


def wait_for(expectation: str, paths: list[Path], seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, expectation
        time.sleep(0.05)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HERE", str(tmp_path))
    return str(tmp_path)


def test_the_command_has_no_input_and_no_terminal_and_its_output_is_kept(tmp_path: Path) -> None:
    script = 'read line || echo "no input"; echo $ONE $HOME-; echo error >&2; exit 3'
    outcome = run_isolated(tmp_path, "sh", "-c", script)
    assert (outcome.code, outcome.planned, outcome.timed_out) == (3, False, False)
    assert (tmp_path / "output").read_text() == "no input\n1 -\nerror\n"
    assert outcome.folder.parent == tmp_path / "runs"
    assert load(outcome.folder).manifest.exit_code == 3
    assert spools() == []


def test_a_command_that_is_not_there_says_so_and_ends_as_in_a_shell(tmp_path: Path) -> None:
    assert run_isolated(tmp_path, "no-such-command").code == 127
    assert "no-such-command: No such file" in (tmp_path / "output").read_text()


def test_what_a_command_leaves_in_the_background_is_ended(tmp_path: Path, mark: str) -> None:
    outcome = run_isolated(
        tmp_path, "sh", "-c", "setsid sleep 1000 & (setsid sleep 1000 &) ; exit 0"
    )
    assert outcome.code == 0
    assert outcome.cpu_ns is not None
    assert find_alive(mark) == []


def test_what_is_not_done_at_the_deadline_is_ended(tmp_path: Path, mark: str) -> None:
    outcome = run_isolated(tmp_path, "sh", "-c", "trap '' TERM; setsid sleep 1000", deadline_s=3.0)
    assert (outcome.code, outcome.timed_out) == (-signal.SIGKILL, True)
    assert find_alive(mark) == []


def test_its_processes_end_where_we_are_interrupted(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    has_begun = (tmp_path / "begun").exists

    def interrupt() -> None:
        wait_until(has_begun)
        time.sleep(1.0)  # the command may have begun before what starts it has returned
        os.kill(os.getpid(), signal.SIGALRM)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_isolated(tmp_path, "sh", "-c", "touch begun; setsid sleep 1000; touch went-on")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert ((tmp_path / "begun").exists(), (tmp_path / "went-on").exists()) == (True, False)
    assert find_alive(mark) == []
    assert spools() == []


@pytest.mark.slow
def test_at_each_stage_its_processes_end_where_we_are_killed(tmp_path: Path, mark: str) -> None:
    stages = [tmp_path / name for name in STAGES]
    command = (sys.executable, str(TESTS / "stages.py"), str(tmp_path))
    words = (sys.executable, str(TESTS / "apart.py"), str(tmp_path), json.dumps(PLAN), *command)
    with subprocess.Popen(words) as launcher:
        wait_for("every stage is reached", stages)
        assert len(find_alive(mark)) > len(STAGES) + 3, "trainings, workers, keeper, launcher"
        launcher.kill()
    deadline = time.monotonic() + PATIENCE_S
    while find_alive(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert find_alive(mark) == []


def test_ranks_leave_at_the_same_step_and_no_script_goes_on_behind_them(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2"
    train = f"{start} {TESTS / 'ddp.py'} 1000000"
    outcome = run_isolated(tmp_path, "sh", "-c", f"{train}; touch went-on", stop=None, seconds=0.5)
    assert (outcome.code, outcome.planned) == (0, True)
    trainings = [
        process for process in load(outcome.folder).processes if process.role == "training"
    ]
    assert sorted(training.rank for training in trainings if training.rank is not None) == [0, 1]
    stop_steps = {training.trial.stopped for training in trainings if training.trial is not None}
    assert len(stop_steps) == 1
    assert None not in stop_steps
    assert not (tmp_path / "went-on").exists()
    assert not list(tmp_path.glob("rank*.txt"))
    assert find_alive(mark) == []
