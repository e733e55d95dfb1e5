"""Arms do no harm: what they write, what never runs, what is told of the rest; tails left out."""

import os
import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gapless.launch.trial import offline, sandbox, side_effects
from gapless.model.edit import Edit, Wrap
from gapless.model.recording import Recording
from gapless.verify.arms.arm import ArmPlan, run
from gapless.verify.specs import ArmSpec

# An ordinary script: it logs, evaluates, keeps checkpoints here and elsewhere, and cleans up.
TRAINING = """
import atexit, os, shutil, subprocess, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

disk = sys.argv[1]
print("starting")
atexit.register(lambda: open(os.path.join(disk, "uploaded"), "w").write("model"))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
training = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4, shuffle=True)
held_out = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4)

def evaluate():
    model.eval()
    with torch.no_grad():
        losses = [model(batch).mean().item() for batch, in held_out]
    model.train()
    return sum(losses) / len(losses)

try:
    for epoch in range(1000):
        for at, (batch,) in enumerate(training):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if at % 4 == 0:
                print("epoch", epoch, "loss", loss.item())
        print("held out", evaluate(), len(list(training)))
        torch.save({"model": model.state_dict(), "epoch": epoch}, "part.pt")
        os.replace("part.pt", "last.pt")
        assert torch.load("last.pt")["epoch"] <= epoch
        torch.save(model.state_dict(), os.path.join(disk, "best.pt"))
        subprocess.run(["sh", "-c", "echo x >> notes; rm -f precious"], check=True)
except BaseException:
    torch.save(model.state_dict(), os.path.join(disk, "emergency.pt"))
    raise
"""


@pytest.fixture(autouse=True)
def _separate_temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a folder for temporary files beside what a script writes, not around it."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


def run_script(root: Path, *edits: Edit, is_private: bool) -> tuple[Recording, str]:
    """Run an arm of the script in a folder; give its recording and what it printed."""
    work, disk = root / "work", root / "disk"
    for folder in (work, disk):
        folder.mkdir()
    (work / "precious").write_text("kept")
    (work / "train.py").write_text(TRAINING)
    logs = root / "logs"
    offline.make(logs)
    plan = ArmPlan((sys.executable, "train.py", str(disk)), root / "arms", close=False)
    plan = replace(plan, variables=offline.variables(os.environ, logs))
    plan = replace(plan, private_folder=work if is_private else None)
    old_cwd = Path.cwd()
    os.chdir(work)
    try:
        arm, recording = run(plan, ArmSpec("A", 0, edits, stop_step=70, seconds=30.0))
    finally:
        os.chdir(old_cwd)
    assert arm.failed is None
    assert recording is not None
    assert arm.folder is not None
    return recording, (Path(arm.folder) / "output.txt").read_text()


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_arm_leaves_the_folder_as_it_was_and_what_is_elsewhere_is_told(tmp_path: Path) -> None:
    work, disk = tmp_path / "work", tmp_path / "disk"
    work.mkdir()
    why = sandbox.explain_unavailable(work)
    work.rmdir()
    recording, _ = run_script(tmp_path, is_private=why is None)
    if why is None:
        assert list_names(work) == ["precious", "train.py"]
    else:
        assert {"last.pt", "notes"} <= set(list_names(work))
    # An absolute path is not covered, so it needs permission; what only runs at an end never ran.
    assert list_names(disk) == ["best.pt"]
    effects = side_effects.find_side_effects(recording)
    assert str(work / "part.pt") in effects.inside
    assert effects.paths == (str(disk / "best.pt"),)
    assert side_effects.find_unpermitted(effects, (disk,), sandboxed=True) == ()
    permissions = side_effects.find_unpermitted(effects, (), sandboxed=False)
    assert permissions == (str(work), str(disk))
    leftovers = [name for name in list_names(tmp_path / "tmp") if name.startswith("gapless")]
    assert leftovers == []  # neither spool nor view


def test_tails_are_left_out_of_an_ordinary_script(tmp_path: Path) -> None:
    edits = (
        Wrap("logging", "no-logging"),
        Wrap("torch.save", "no-checkpoint"),
        Wrap("torch.nn.Module.eval", "no-evaluation"),
        *(edit for edit in offline.edits({}, tmp_path / "logs") if isinstance(edit, Wrap)),
    )
    recording, output = run_script(tmp_path, *edits, is_private=False)
    assert output == "starting\n"
    (process,) = recording.processes
    counts_by_edit = {
        fact.values["edit"]: fact.values["times"] for fact in process.facts if fact.noun == "edit"
    }
    assert counts_by_edit.keys() >= {0, 1, 2}
    assert min(int(str(counts_by_edit[number])) for number in (0, 1, 2)) >= 2
    assert re.findall(r"edit", " ".join(gap.what for gap in process.unobserved)) == []
    assert {"last.pt", "notes", "train.py"} <= set(list_names(tmp_path / "work"))
