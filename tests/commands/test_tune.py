"""``gapless tune``: what it asks for, what it writes and prints, how it ends and goes on."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless import cli
from gapless.model.edit import Applicability, SetGlobal
from gapless.model.estimate import Estimate
from gapless.model.tuning import ProvenFix, TuningState
from gapless.store.run import tunings
from gapless.tune import rounds
from tests.store import drawing
from tests.tune.fakes import Training

FIX = ProvenFix(
    "foreach", "foreach True", (SetGlobal("torch.x", 1),), Applicability.IDENTICAL,
    Estimate(1.4, 1.5, 1.6),
)  # fmt: skip
TWO_FAULTS = """
import time
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Slow(Dataset):
    def __len__(self):
        return 3000
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.randn(64)
layers = [torch.nn.Linear(64, 64) for _ in range(80)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), 1e-4, foreach=False)
for batch in DataLoader(Slow(), batch_size=8):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recorded run, and stand in the folder that it worked in."""
    monkeypatch.chdir(tmp_path)
    logs = {"rank0.log": b"".join(drawing.training())}
    return drawing.write_run(tmp_path / ".gapless" / "runs" / "2026-a", logs, folder=str(tmp_path))


@pytest.fixture
def training(run: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    """Return the training that is tuned instead of the run's own."""
    training = Training(
        lambda _: {"loader": 2.0, "foreach": 1.5, "useless": 1.2}, {"loader": 2.0, "foreach": 1.5}
    )
    tune = rounds.tune

    def tune_fake(state: TuningState, _: object, budget_s: float) -> TuningState:
        bench = training.bench()
        record = "untouched" if state.record == str(run) else state.record

        def save(state: TuningState) -> None:
            tunings.write_state(state, run)

        return tune(replace(state, record=record), replace(bench, save=save), budget_s)

    monkeypatch.setattr(rounds, "tune", tune_fake)
    return training


def test_what_is_proven_is_printed_and_written_and_gone_on_with(
    run: Path, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["tune", "--yes", "--out", "mine.json"]) == 0
    screen = capsys.readouterr().out
    assert "2.00× [1.95 … 2.05] with 2 fixes, proven" in screen
    assert "a step 20.00 ms before, 10.00 ms after · 3 tried, 2 kept" in screen
    assert "useless on: it changes nothing that matters" in screen
    assert "gapless run --with mine.json" in screen
    assert "gapless fix" in screen
    tuning = tunings.read_tuning(run / tunings.FILE)
    assert [fix.fix for fix in tuning.fixes] == ["loader", "foreach"]
    assert tunings.read_tuning(Path("mine.json")) == tuning
    assert len(training.calls) == 6


def test_an_interrupted_tuning_ends_with_130_and_is_resumed(
    run: Path, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    training.interrupt = lambda call: call == "foreach"
    assert cli.main(["tune", "--yes"]) == 130
    screen = capsys.readouterr().out
    assert "1 fix kept, their total gain not proven" in screen
    assert "gapless tune --resume" in screen
    assert len(tunings.read_tuning(run / tunings.FILE).fixes) == 1
    Path("loader").mkdir()  # the record that it goes on from
    edit = drawing.fact("edit", 0, edit=0, target="torch.x")
    logs = {"rank0.log": b"".join([*drawing.training()[:-1], edit, drawing.training()[-1]])}
    later = drawing.write_run(run.parent / "2026-b", logs, folder=str(Path.cwd()))
    assert cli.main(["tune", "--yes", "--resume"]) == 130, "the last run of which a tuning began"
    capsys.readouterr()
    training.interrupt = lambda _: False
    command = ["--", "python", "train.py"]  # the last run of it was recorded with edits applied
    assert cli.main(["tune", "--yes", "--resume", "--json", *command]) == 0
    assert not (later / tunings.STATE).exists()
    document = json.loads(capsys.readouterr().out)
    assert document["proven"]
    assert [fix["fix"] for fix in document["fixes"]] == ["loader", "foreach"]
    assert training.tried().count("loader") == 1


def test_a_proof_that_fails_is_told_and_nothing_is_applied(
    run: Path, training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    training.whole = 1.0
    assert cli.main(["tune", "--yes"]) == 0
    screen = capsys.readouterr().out
    assert "no gain: the final proof does not confirm 2 fixes: together 1.00×" in screen
    assert "run --with" not in screen
    assert tunings.read_tuning(run / tunings.FILE).fixes == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume"], "there is nothing to resume"),
        (["--fix", "no-such"], "there is no fix 'no-such'"),
        (["--fix", "foreach+fused"], "name them one by one"),
        (["--skip", "forech"], "did you mean foreach"),
        (["--budget", "soon"], "is not a duration"),
    ],
)
def test_mistakes_are_told_before_anything_is_run(
    run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["tune", "--yes", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (run / tunings.STATE).exists()


def test_a_state_that_is_not_whole_is_no_state(run: Path) -> None:
    tunings.write_state(TuningState(("x",), "/", None, fixes=(FIX,)), run)
    assert tunings.read_state(run) == TuningState(("x",), "/", None, fixes=(FIX,))
    (run / tunings.STATE).write_text((run / tunings.STATE).read_text()[:-30])
    assert tunings.read_state(run) is None


@pytest.mark.slow
def test_a_training_with_two_faults_is_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TWO_FAULTS)
    words = ["--fix", "more-workers=4", "foreach", "--budget", "5m"]
    assert cli.main(["tune", "--yes", "--json", *words, "--", sys.executable, "train.py"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "more-workers" in {fix["fix"] for fix in document["fixes"]}
    assert document["proof"]["fixes"] == [fix["fix"] for fix in document["fixes"]]
    assert tunings.read_edits(Path(document["file"]))
