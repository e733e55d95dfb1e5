"""Workers that a training on a GPU forks free nothing that asks for the device of their parent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gapless

TRAINING = """
import gc
import torch

weights = torch.randn(4096, 4096, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=1e-9)


def collect(_):
    gc.collect()


gc.disable()
samples = torch.utils.data.TensorDataset(torch.randn(7 * 16, 4096))
loader = torch.utils.data.DataLoader(
    samples, batch_size=16, num_workers=2, worker_init_fn=collect
)
for epoch in range(15):
    for (batch,) in loader:
        out = batch.cuda()
        for _ in range(8):
            out = (out @ weights).clamp(-1, 1)
        out.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.gpu
def test_forked_workers_train_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    runs = tmp_path / "runs"
    line = [sys.executable, "-m", "gapless", "run", "--quiet", "--out", str(runs)]
    subprocess.run([*line, sys.executable, "train.py"], cwd=tmp_path, check=True, env=os.environ)
    (run,) = (path.parent for path in runs.glob("*/run.json"))
    assert gapless.open(run).recorded is not None
