"""``gapless try``: what it asks for, what it refuses, what it prints, how it ends."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless import cli
from gapless.errors import UsageError
from gapless.launch.trial import sandbox
from gapless.model.machine import Constant, Constants, Platform
from gapless.model.recording import Recording
from gapless.model.trial import Trial
from gapless.store.run import trials
from gapless.store.run.recordings import load
from gapless.study import machine_constants, run_constants
from gapless.verify import trial as trial_module
from gapless.verify.plan import INTERRUPTED, conduct
from gapless.verify.specs import Candidate, TrialSettings
from tests.store import drawing
from tests.verify.arms import Machine, candidate

TRAINING = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for batch in DataLoader(torch.randn(100_000, 4)):
    model(batch).sum().backward()
    optimizer.step()
"""
Tasks = list[trial_module.TrialTask]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recorded run, and stand in the folder that it worked in."""
    monkeypatch.chdir(tmp_path)
    logs = {"rank0.log": b"".join(drawing.training())}
    home = tmp_path / ".gapless" / "runs"
    return drawing.write_run(home / "2026-a", logs, folder=str(tmp_path))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """Return what trials are asked for; they are run by a table."""
    tasks: Tasks = []

    def attempt(
        task: trial_module.TrialTask, known_run: Recording | None, _: object
    ) -> trial_module.TrialOutcome:
        tasks.append(task)
        recording = known_run or load(next((task.home).glob("2026-*")))
        return trial_module.TrialOutcome(
            recording, conduct_example(Machine({"A": 20, "B": 10})), ()
        )

    monkeypatch.setattr(trial_module, "attempt", attempt)
    return tasks


def always_give(value: object) -> Callable[..., object]:
    """Return a function that gives a value, whatever it is asked."""

    def give(*_: object) -> object:
        return value

    return give


def conduct_example(machine: Machine, *notes: str) -> Trial:
    settings = TrialSettings("01", ("python", "train.py"), clock=machine.clock, windows=False)
    return replace(conduct((candidate(),), settings, machine.run, lambda _: None), notes=notes)


def test_what_follows_the_sign_is_the_commands_own(run: Path, tasks: Tasks) -> None:
    words = ["python", "x.py", "--fix", "y", "--", "--json"]
    assert cli.main(["try", "--yes", "--fix", "fused", "--", *words]) == 0
    assert tasks[0].command == tuple(words)
    assert tasks[0].request.fixes == ("fused",)
    assert run.is_dir()


def test_by_itself_what_the_report_of_the_last_run_proposes_is_tried(
    run: Path, tasks: Tasks
) -> None:
    assert cli.main(["try", "--yes"]) == 0
    (task,) = tasks
    assert (task.request.proposed, task.request.ceilings) == (True, False)
    assert (task.command, task.budget_s) == (("python", "train.py"), None)
    assert trials.run_trials(run)[0].id == "01"


@pytest.mark.parametrize("words", [["--ceilings"], ["--fix", "fused"]])
def test_what_is_named_is_tried_alone(run: Path, tasks: Tasks, words: list[str]) -> None:
    assert cli.main(["try", run.name, "--yes", *words]) == 0
    assert not tasks[0].request.proposed


def test_a_machine_cannot_be_measured_for_a_run_that_does_not_tell_its_interpreter(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["try", run.name, "--machine"]) == 2
    assert "no run records which interpreter" in capsys.readouterr().err
    assert cli.main(["try", run.name, "--machine", "--ceilings"]) == 2
    assert "--machine tries nothing" in capsys.readouterr().err


@pytest.mark.parametrize("alone", [True, False])
def test_the_machine_is_measured_in_the_interpreter_of_the_run(
    run: Path,
    alone: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = (Constant("launch.call", "ns", None, 2100.0, 2000.0, 2400.0, 30, 0.5),)
    platform = Platform("/venv/bin/python", "3.12.3", "2.11.0", "a processor", 16)
    measured_targets: list[object] = []

    def measure(python: str, *arguments: object) -> Constants:
        measured_targets.append((python, arguments[0]))
        return Constants(platform, values, ("launches",), 1e9, 3.5, alone=alone)

    monkeypatch.setattr(machine_constants, "constants", measure)
    interpreter = run_constants.Interpreter("/venv/bin/python", 0)
    monkeypatch.setattr(run_constants, "find_interpreter", always_give(interpreter))
    assert cli.main(["try", run.name, "--machine"]) == 0
    output = capsys.readouterr()
    assert "launch.call" in output.out
    assert ("no prediction will use this" in output.err) == (not alone)
    assert cli.main(["try", run.name, "--machine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["constants"]["values"][0]["value"] == 2100.0
    assert measured_targets == [("/venv/bin/python", 0)] * 2


def test_a_run_and_a_command_are_too_much(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["try", str(run), "--yes", "--", "python", "x.py"]) == 2
    assert "a RUN has its own command" in capsys.readouterr().err


def test_json_stands_alone_on_the_output(
    run: Path, tasks: Tasks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["try", run.name, "--yes", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["trials"][0]["verdict"] == "confirmed"
    assert len(tasks) == 1


def test_what_was_interrupted_is_printed_and_ends_as_ctrl_c_does(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted_trial = conduct_example(Machine({"A": 20, "B": 10}), INTERRUPTED)
    outcome = trial_module.TrialOutcome(load(run), interrupted_trial, ())
    monkeypatch.setattr(trial_module, "attempt", always_give(outcome))
    assert cli.main(["try", "--yes"]) == 130
    assert "confirmed 2.000×" in capsys.readouterr().out


@pytest.mark.usefixtures("run")
def test_without_a_terminal_and_a_yes_nothing_is_started(
    tasks: Tasks, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "explain_unavailable", always_give("there is none here"))
    assert cli.main(["try"]) == 2
    error_text = capsys.readouterr().err
    assert "there is no private view of it (there is none here)" in error_text
    assert "--yes" in error_text.splitlines()[-1]
    assert tasks == []


def spoil_folder(run: Path) -> str:
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"folder": "/nowhere"}))
    return "working folder /nowhere is not here"


def spoil_logs(run: Path) -> str:
    (run / "logs" / "rank0.log").unlink()
    return "has no steps: there is nothing to try"


@pytest.mark.parametrize("spoil", [spoil_folder, spoil_logs])
def test_a_run_that_cannot_be_tried_is_told(
    run: Path, tasks: Tasks, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], str]
) -> None:
    why = spoil(run)
    assert cli.main(["try", "--yes"]) == 2
    assert why in capsys.readouterr().err
    assert tasks == []


def test_a_later_run_that_did_not_train_is_passed_over(run: Path, tasks: Tasks) -> None:
    drawing.write_run(run.parent / "2026-b", {}, folder=str(run.parents[2]))
    assert cli.main(["try", "--yes"]) == 0
    assert [task.home for task in tasks] == [run.parent]


def test_a_folder_of_runs_stands_for_its_last(run: Path, tasks: Tasks) -> None:
    moved_folder = run.parents[2] / "elsewhere"
    run.parent.rename(moved_folder)
    assert cli.main(["try", "elsewhere", "--yes"]) == 0
    assert len(tasks) == 1


@pytest.mark.usefixtures("run")
def test_interrupted_before_arms_could_be_compared_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> trial_module.TrialOutcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(trial_module, "attempt", interrupt)
    assert cli.main(["try", "--yes"]) == 130
    assert "interrupted before two arms could be compared" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--ceilings"], (2, False, 120.0)),
        (["--ceilings", "--budget", "5m"], (2, False, 300.0)),
        (["--set", "DataLoader.num_workers=1"], (3, True, 240.0)),
        (["--ceilings", "--set", "DataLoader.num_workers=1"], (3, True, 240.0)),
    ],
)
def test_ceilings_alone_are_brief(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: tuple[int, bool, float],
) -> None:
    conducted_settings = list[TrialSettings]()

    def stop(_: tuple[Candidate, ...], settings: TrialSettings, *_arguments: object) -> Trial:
        conducted_settings.append(settings)
        raise UsageError("enough")

    monkeypatch.setattr(trial_module, "conduct_both_ways", stop)
    assert cli.main(["try", "--yes", *words]) == 2
    assert (
        conducted_settings[0].pairs,
        conducted_settings[0].windows,
        conducted_settings[0].budget_s,
    ) == expected
    assert list((run / "trials").iterdir()) == []


@pytest.mark.slow
def test_a_command_that_was_never_recorded_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAINING)
    words = ["--set", "torch.optim.SGD.foreach=true", "--yes", "--json", "--budget", "60s"]
    assert cli.main(["try", *words, "--steps", "40", "--", sys.executable, "train.py"]) == 0
    document = json.loads(capsys.readouterr().out)
    (trial,) = document["trials"]
    assert trial["speedup"]["low"] <= trial["speedup"]["mid"] <= trial["speedup"]["high"]
    assert (trial["parity"], trial["data"]) == ("same", "same")
    assert len(trial["arms"]) >= 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gapless", "train.py"]
