"""A training that its GPU fills, and whose host runs far ahead, is told as that."""

import subprocess
import sys
from pathlib import Path

import pytest

import gapless

TRAINING = """
import time
import torch

weights = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=1e-9)
batch = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
for step in range(300):
    out = batch
    for _ in range(12):
        out = (out @ weights).clamp(-1, 1)
    out.float().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
"""


@pytest.mark.gpu
def test_a_window_waits_for_its_device(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    runs = tmp_path / "runs"
    line = [sys.executable, "-m", "gapless", "run", "--quiet", "--out", str(runs)]
    subprocess.run([*line, sys.executable, "train.py"], cwd=tmp_path, check=True)
    (run,) = (path.parent for path in runs.glob("*/run.json"))
    recorded = gapless.open(run).recorded
    assert recorded is not None
    assert recorded.steps is not None
    assert recorded.account is not None
    steps, account = recorded.steps, recorded.account
    assert steps.device_median_ns is not None
    assert steps.ahead > 0
    assert steps.mean_ns == pytest.approx(steps.device_median_ns, rel=0.1)
    assert account.on_device
    assert account.account.busy_ns() >= 0.9 * account.account.wall_ns
