"""A training that ends inside a window ends, with its window if its GPU was idle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gapless

TRAINING = """
import os
import sys
import torch

weights = torch.randn(1024, 1024, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=1e-9)
batch = torch.randn(1024, 1024, device="cuda")
last = int(sys.argv[1])
for step in range(last):
    out = batch
    for _ in range(400):
        out = (out @ weights).clamp(-1, 1)
    out.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if sys.argv[2] == "idle":
        torch.cuda.synchronize()
if sys.argv[3] == "_exit":
    os._exit(0)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("exit_kind", ["exit", "_exit"])
@pytest.mark.parametrize("device", ["idle", "busy"])
@pytest.mark.parametrize("n_steps", [16, 17, 18])
def test_a_training_that_ends_inside_a_window_ends(
    tmp_path: Path, n_steps: int, device: str, exit_kind: str
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    runs = tmp_path / "runs"
    line = [sys.executable, "-m", "gapless", "run", "--quiet", "--out", str(runs)]
    ranks = {**os.environ, "WORLD_SIZE": "2", "RANK": "0"}  # these open at numbers: after step 12
    command = [*line, sys.executable, "train.py", str(n_steps), device, exit_kind]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60, env=ranks)
    (run,) = (path.parent for path in runs.glob("*/run.json"))
    study = gapless.open(run)
    assert study.recorded is not None
    if device == "idle" and exit_kind == "exit":
        assert study.recorded.windows == 1
        assert study.recorded.account is not None
        assert study.recorded.account.on_device
