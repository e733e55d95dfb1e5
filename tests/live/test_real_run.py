"""A real training under ``gapless run``, watched while it runs, and asked for a window."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gapless import wire
from gapless.live.asking import ask_for_window
from gapless.live.view import RunView
from gapless.live.watching import RunWatcher
from gapless.store.run import runs
from tests.waiting import wait_until

STEPS = 4000
TRAINING = f"""
import time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = 0
while steps < {STEPS}:
    for inputs, targets in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        time.sleep(0.005)
        steps += 1
print(steps)
"""


@pytest.mark.slow
def test_a_window_comes_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    options = ["--quiet", "--every", "100000"]  # no other window is planned after the first ones
    command = [sys.executable, "-m", "gapless", "run", *options, sys.executable, "train.py"]
    place = tmp_path / ".gapless" / "runs"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as training:
        wait_until(lambda: runs.find_running(place) is not None)
        folder = runs.find_running(place)
        assert folder is not None
        watcher = RunWatcher(folder)

        def run() -> RunView:
            view = watcher.look().run
            assert view is not None
            return view

        wait_until(lambda: (run().steps or 0) > 300)
        asked_after = run()
        sentence, is_asked = ask_for_window(asked_after)
        assert is_asked, sentence
        before, most = asked_after.windows, (asked_after.steps or 0) + 200
        wait_until(lambda: run().windows > before)
        starts = [
            window.first_step
            for process in watcher.tail.follow().recording.processes
            for window in process.windows
        ]
        out, _ = training.communicate()
    assert (training.returncode, out) == (0, f"{STEPS}\n")
    assert asked_after.steps is not None
    assert any(asked_after.steps - 5 <= start <= most for start in starts)
    watcher.study_when_due()
    final = watcher.look().run
    assert final is not None
    assert (final.status, final.steps) == ("finished", STEPS)
    spool = json.loads((folder / "run.json").read_text()).get("spool")
    assert spool is None
    assert wire.ASKED not in {path.name for path in folder.rglob("*")}
