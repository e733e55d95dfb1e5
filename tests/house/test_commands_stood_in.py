"""Commands of the docs that start a training many times, run as they stand.

What stands in for the arms that they start is a table: an arm with edits steps faster. All else is
real: names, requests, permissions, revisions, judging, and what is printed and written. With --slow
``test_commands_run.py`` starts real ones.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pytest

from gapless import cli, wire
from gapless.commands import check, demo
from gapless.export import catching
from gapless.feeding import arm
from gapless.gate import measuring
from gapless.launch.trial import isolated, sandbox, side_effects
from gapless.live.outside import attaching
from gapless.live.outside.attached import Attached
from gapless.model.machine import Constant, Constants, Platform
from gapless.store.run.tunings import read_edits
from gapless.study import machine_constants, run_constants
from gapless.verify import in_place
from tests.house.test_commands import IN_BLOCKS
from tests.store import drawing
from tests.traces import recorded_run

MS: Final = 1_000_000
STOOD_IN: Final = ("try", "tune", "gate", "attach", "demo", "data", "export")
_STEPS: Final = 200
_BASE_MS, _FASTEST_MS, _SAVED_MS = 20.0, 5.0, 4.0  # a step, at least, and less by each edit
_REVISION: Final = "origin/${{ github.base_ref }}"


def commands(name: str) -> list[str]:
    """Return the commands of blocks of code that begin so."""
    return [line for line in IN_BLOCKS if line.split()[1] == name]


def always(value: object) -> Callable[..., object]:
    """Return a function that gives a value, whatever it is asked."""

    def give(*_: object, **__: object) -> object:
        return value

    return give


def run_arm(run: isolated.IsolatedRun) -> isolated.IsolatedOutcome:
    """Write what an arm would have recorded."""
    edits = run.spec.settings.edits
    saved = _SAVED_MS * sum("offline" not in json.dumps(edit) for edit in edits)
    step_ns = int(max(_FASTEST_MS, _BASE_MS - saved) * MS)
    home = Path(run.spec.out or ".")
    folder = home / f"2027-arm-{len([*home.glob('2027-arm-*')]):03d}"
    steps = [
        drawing.step(number, (number + 1) * step_ns - MS, (number + 1) * step_ns)
        for number in range(_STEPS)
    ]
    facts = [
        drawing.fact("edit", number, edit=number, target="x", times=1)
        for number in range(len(edits))
    ]
    end = wire.text_frame(wire.END, {"ns": (_STEPS + 1) * step_ns, "how": "trial"})
    log = b"".join(
        (drawing.process(start_ns=0, monotonic_ns=1), *facts, drawing.marks(*steps), end)
    )
    last_ns = (_STEPS + 2) * step_ns
    drawing.write_run(folder, {"rank0.log": log}, started=0, ended=last_ns, folder=str(Path.cwd()))
    run.output.write_text("")
    return isolated.IsolatedOutcome(
        code=0, planned=True, timed_out=False, folder=folder, unobserved=(),
        started_ns=0, ended_ns=last_ns, cpu_ns=last_ns,
    )  # fmt: skip


def place_run(path: Path) -> None:
    """Have the run that is kept with the tests be one of ``python train.py`` in a folder."""
    home = path / ".gapless/runs"
    shutil.copytree(recorded_run().parent, home)
    (run,) = (entry for entry in home.iterdir() if entry.is_dir())
    shutil.rmtree(run / "windows")  # replayed for each prediction, it takes most of the time
    manifest = json.loads((run / "run.json").read_text())
    changes = {"folder": str(path), "command": ["python", "train.py"]}
    (run / "run.json").write_text(json.dumps(manifest | changes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the working folder of a recorded run, with runs and traces that the docs name."""
    path = tmp_path_factory.mktemp("work")
    place_run(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.setenv("GAPLESS_CACHE", str(path / "cache"))
        patch.setattr(isolated, "run", run_arm)
        patch.setattr(sandbox, "explain_unavailable", always(None))
        patch.setattr(side_effects, "find_unpermitted", always(()))  # as if answered: y
        patch.setattr(sandbox, "open_view", always(nullcontext()))
        patch.setattr(measuring.room, "explain_lack", always("arms stand in"))
        yield path


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = cli.main(shlex.split(command)[1:])
    output = "".join(capsys.readouterr())
    assert code == 0, output
    return output


@pytest.mark.parametrize("command", commands("try"))
def test_tries_run(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform = Platform("/venv/bin/python", "3.12.3", "2.11.0", "a processor", 16)
    launch = Constant("launch.call", "ns", None, 2100.0, 2000.0, 2400.0, 30, 0.5)
    measured = Constants(platform, (launch,), ("launches",), 1e9, 3.5, alone=True)
    monkeypatch.setattr(machine_constants, "constants", always(measured))
    interpreter = run_constants.Interpreter("/venv/bin/python", 0)
    monkeypatch.setattr(run_constants, "find_interpreter", always(interpreter))
    output = run_command(command, capsys)
    words = {"--machine": "launch.call", "--list": "more-workers"}
    assert words.get(command.split()[2] if " --" in command else "", "arms") in output, output
    assert (folder / "try.html").exists() == ("--html" in command)
    (folder / "try.html").unlink(missing_ok=True)


def test_tunings_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in sorted(commands("tune"), key=lambda line: "--resume" in line):
        assert "tried" in run_command(command, capsys), command
    assert read_edits(folder / "tuned.json")


def test_gates_run(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a repository of two commits, the baseline first, which another command goes by."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / ".gitignore").write_text("data\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path))
    for words in ("init -q -b main", "add .", "commit -qm a", "commit -qm b --allow-empty"):
        subprocess.run([*git, *words.split()], check=True)
    (tmp_path / "gapless-gate.toml").write_text('command = ["python", "train.py"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for command in sorted(commands("gate"), key=lambda line: "--update" not in line):
            output = run_command(command.replace(_REVISION, "main"), capsys)
            words = "written, 1 session" if "--update" in command else "gate green: no regression"
            assert words in output, output
    assert folder.is_dir()


@pytest.mark.parametrize("command", commands("demo"))
def test_demos_run(
    command: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checked: list[list[str]] = []

    def check_training(arguments: argparse.Namespace) -> int:
        assert Path("train.py").is_file()
        place_run(Path.cwd())
        checked.append(arguments.command_line)
        return 0

    monkeypatch.setattr(check, "main", check_training)
    monkeypatch.setattr(demo, "require_packages", always(None))  # imports torch
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    output = run_command(command.replace("~", str(tmp_path)), capsys)
    (words,) = checked
    python = tmp_path / "venv/bin/python" if "--python" in command else sys.executable
    assert words[:2] == [str(python), "train.py"]
    assert ("workers-and-one-thread" in output) == ("--no-try" not in command)
    assert (tmp_path / "here/train.py").exists() == ("--folder" in command)
    assert folder.is_dir()


@pytest.mark.parametrize("command", commands("data"))
def test_inputs_are_measured(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    decoding = {"now": [4e6, 5e6, 4e6], "as now, alone": [4e6, 5e6, 4e6], "other": [2e6] * 3}
    document: dict[str, Any] = {
        "subject": {"samples": 3}, "series": {"decode": decoding}, "pixels": [], "absent": {},
        "notes": [], "files": [], "failed": None, "complete": True,
    }  # fmt: skip
    monkeypatch.setattr(arm, "run_arm", always(in_place.TakeoverRecord(document=document)))
    output = run_command(command, capsys)
    assert ('"mid":2.0' if "--json" in command else "2.00×") in output, output
    assert folder.is_dir()


@pytest.mark.parametrize("command", commands("export"))
def test_models_are_exported(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "best.pt").write_bytes(b"weights")
    eager: dict[str, Any] = {"files": [], "parity": None, "why": None, "failure": None}
    names = command.split("--to ")[1].split(" --", maxsplit=1)[0].split()
    ways = {"eager": eager} | {name: eager | {"files": [["model", 9]]} for name in names}
    subject: dict[str, Any] = {
        "class": "Net", "parameters": 3, "dtype": "float32", "device": "cpu", "autocast": None,
        "inputs": [], "batch": 8, "batch_lack": "", "ways": ways,
    }  # fmt: skip
    series = {"8": {"eager": [[4e6], [4e6]], names[0]: [[2e6], [2e6]]}}
    document: dict[str, Any] = {
        "subject": subject, "series": series, "absent": {}, "notes": [], "failed": None,
        "complete": True,
    }  # fmt: skip
    monkeypatch.setattr(catching, "run_arm", always(in_place.TakeoverRecord(document=document)))
    output = run_command(command, capsys)
    assert ('"mid":2.0' if "--json" in command else "2.00×") in output, output


@pytest.fixture
def trainings() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("command", commands("attach"))
def test_looks_from_outside_run(
    command: str,
    trainings: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    look = attaching.attach

    def look_briefly(pid: int, seconds: float, say: Callable[[str], None]) -> Attached:
        return look(pid, seconds / 20, say)

    monkeypatch.setattr(attaching, "attach", look_briefly)
    output = run_command(command.replace("12345", str(trainings)), capsys)
    assert str(trainings) in output
