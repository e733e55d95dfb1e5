"""``gapless try``: what it asks for, what it refuses, what it prints, how it ends."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gapless import cli
from gapless.errors import UsageError
from gapless.launch import sandbox
from gapless.model.machine import Constant, Constants, Place
from gapless.model.recording import Recording
from gapless.model.trial import Trial
from gapless.store import trials
from gapless.store.recordings import load
from gapless.study import machine_constants
from gapless.study.recorded import constants
from gapless.verify import trying
from gapless.verify.plan import INTERRUPTED, conduct
from gapless.verify.wanted import Candidate, TrialSettings
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
SLOW_LOADER = """
import time
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.randn(64)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
work = torch.ones(300, 300)
for batch in DataLoader(Slow()):
    for _ in range(4):
        work.mm(work)
    model(batch).sum().backward()
    optimizer.step()
"""
Asked = list[trying.Asked]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a recorded run, and stand in the folder that it worked in."""
    monkeypatch.chdir(tmp_path)
    logs = {"rank0.log": b"".join(drawing.training())}
    home = tmp_path / ".gapless" / "runs"
    return drawing.run(home / "2026-a", logs, folder=str(tmp_path))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Give what trials are asked for; they are run by a table."""
    found: Asked = []

    def attempt(one: trying.Asked, known: Recording | None, _: object) -> trying.Tried:
        found.append(one)
        recording = known or load(next((one.home).glob("2026-*")))
        return trying.Tried(recording, trial_of(Machine({"A": 20, "B": 10})), ())

    monkeypatch.setattr(trying, "attempt", attempt)
    return found


def always(value: object) -> Callable[..., object]:
    """Give a function that gives a value, whatever it is asked."""

    def gives(*_: object) -> object:
        return value

    return gives


def trial_of(machine: Machine, *notes: str) -> Trial:
    settings = TrialSettings("01", ("python", "train.py"), clock=machine.clock, windows=False)
    return replace(conduct((candidate(),), settings, machine.run, lambda _: None), notes=notes)


def test_what_follows_the_sign_is_the_commands_own(run: Path, asked: Asked) -> None:
    words = ["python", "x.py", "--fix", "y", "--", "--json"]
    assert cli.main(["try", "--yes", "--fix", "fused", "--", *words]) == 0
    assert asked[0].command == tuple(words)
    assert asked[0].wish.fixes == ("fused",)
    assert run.is_dir()


def test_by_itself_what_the_report_of_the_last_run_proposes_is_tried(
    run: Path, asked: Asked
) -> None:
    assert cli.main(["try", "--yes"]) == 0
    (one,) = asked
    assert (one.wish.proposed, one.wish.ceilings) == (True, False)
    assert (one.command, one.budget_s) == (("python", "train.py"), None)
    assert trials.of(run)[0].id == "01"


@pytest.mark.parametrize("words", [["--ceilings"], ["--fix", "fused"]])
def test_what_is_named_is_tried_alone(run: Path, asked: Asked, words: list[str]) -> None:
    assert cli.main(["try", run.name, "--yes", *words]) == 0
    assert not asked[0].wish.proposed


def test_a_check_of_predictions_is_a_trial_by_itself(
    run: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["try", run.name, "--yes", "--check-prediction"]) == 0
    assert (asked[0].wish.check, asked[0].wish.proposed) == (True, False)
    assert cli.main(["try", run.name, "--yes", "--check-prediction", "--fix", "fused"]) == 2
    assert "--check-prediction is a trial by itself" in capsys.readouterr().err
    assert len(asked) == 1


def test_a_machine_cannot_be_measured_for_a_run_that_does_not_tell_its_interpreter(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["try", run.name, "--machine"]) == 2
    assert "no run tells which interpreter" in capsys.readouterr().err
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
    place = Place("/venv/bin/python", "3.12.3", "2.11.0", "a processor", 16)
    seen: list[object] = []

    def measure(python: str, *asked: object) -> Constants:
        seen.append((python, asked[0]))
        return Constants(place, values, ("launches",), 1e9, 3.5, alone=alone)

    monkeypatch.setattr(machine_constants, "constants", measure)
    interpreter = constants.Interpreter("/venv/bin/python", 0)
    monkeypatch.setattr(constants, "asked_of", always(interpreter))
    assert cli.main(["try", run.name, "--machine"]) == 0
    printed = capsys.readouterr()
    assert "launch.call" in printed.out
    assert ("no prediction will use this" in printed.err) == (not alone)
    assert cli.main(["try", run.name, "--machine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["constants"]["values"][0]["value"] == 2100.0
    assert seen == [("/venv/bin/python", 0)] * 2


def test_a_run_and_a_command_are_too_much(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["try", str(run), "--yes", "--", "python", "x.py"]) == 2
    assert "a RUN has its own command" in capsys.readouterr().err


def test_json_stands_alone_on_the_output(
    run: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["try", run.name, "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["trials"][0]["verdict"] == "confirmed"
    assert len(asked) == 1


def test_what_was_interrupted_is_printed_and_ends_as_ctrl_c_does(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = trial_of(Machine({"A": 20, "B": 10}), INTERRUPTED)
    given = trying.Tried(load(run), cut, ())
    monkeypatch.setattr(trying, "attempt", always(given))
    assert cli.main(["try", "--yes"]) == 130
    assert "confirmed 2.000×" in capsys.readouterr().out


@pytest.mark.usefixtures("run")
def test_without_a_terminal_and_a_yes_nothing_is_started(
    asked: Asked, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "available", always("there is none here"))
    assert cli.main(["try"]) == 2
    told = capsys.readouterr().err
    assert "there is no private view of it (there is none here)" in told
    assert "--yes" in told.splitlines()[-1]
    assert asked == []


def spoil_folder(run: Path) -> str:
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"folder": "/nowhere"}))
    return "working folder /nowhere is not here"


def spoil_logs(run: Path) -> str:
    (run / "logs" / "rank0.log").unlink()
    return "has no steps: there is nothing to try"


@pytest.mark.parametrize("spoil", [spoil_folder, spoil_logs])
def test_a_run_that_cannot_be_tried_is_told(
    run: Path, asked: Asked, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], str]
) -> None:
    why = spoil(run)
    assert cli.main(["try", "--yes"]) == 2
    assert why in capsys.readouterr().err
    assert asked == []


def test_a_later_run_that_did_not_train_is_passed_over(run: Path, asked: Asked) -> None:
    drawing.run(run.parent / "2026-b", {}, folder=str(run.parents[2]))
    assert cli.main(["try", "--yes"]) == 0
    assert [one.home for one in asked] == [run.parent]


def test_a_folder_of_runs_stands_for_its_last(run: Path, asked: Asked) -> None:
    moved = run.parents[2] / "elsewhere"
    run.parent.rename(moved)
    assert cli.main(["try", "elsewhere", "--yes"]) == 0
    assert len(asked) == 1


@pytest.mark.usefixtures("run")
def test_interrupted_before_arms_could_be_compared_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> trying.Tried:
        raise KeyboardInterrupt

    monkeypatch.setattr(trying, "attempt", interrupted)
    assert cli.main(["try", "--yes"]) == 130
    assert "interrupted before two arms could be compared" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "brief"),
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
    brief: tuple[int, bool, float],
) -> None:
    found = list[TrialSettings]()

    def stop(_: tuple[Candidate, ...], settings: TrialSettings, *_more: object) -> Trial:
        found.append(settings)
        raise UsageError("enough")

    monkeypatch.setattr(trying, "conduct", stop)
    assert cli.main(["try", "--yes", *words]) == 2
    assert (found[0].pairs, found[0].windows, found[0].budget_s) == brief
    assert list((run / "trials").iterdir()) == []


@pytest.mark.slow
def test_a_command_that_was_never_recorded_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAINING)
    words = ["--set", "torch.optim.SGD.foreach=true", "--yes", "--json", "--budget", "60s"]
    assert cli.main(["try", *words, "--steps", "40", "--", sys.executable, "train.py"]) == 0
    told = json.loads(capsys.readouterr().out)
    (one,) = told["trials"]
    assert one["speedup"]["low"] <= one["speedup"]["mid"] <= one["speedup"]["high"]
    assert (one["parity"], one["data"]) == ("same", "same")
    assert len(one["arms"]) >= 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gapless", "train.py"]


@pytest.mark.slow
def test_known_delays_are_predicted_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SLOW_LOADER)
    assert cli.main(["check", "--", sys.executable, "train.py"]) == 0
    capsys.readouterr()
    assert cli.main(["try", "--check-prediction", "--yes", "--json", "--budget", "90s"]) == 0
    told = json.loads(capsys.readouterr().out)
    checks = [one["check"] for one in told["trials"]]
    assert "the loader" in [one["place"] for one in checks]
    for one in checks:
        assert one["measured"] is not None
        assert one["agreement"] in {"within", "near", "undecided"}
    assert cli.main(["report", "--markdown"]) == 0
    assert "a delay of" in capsys.readouterr().out
