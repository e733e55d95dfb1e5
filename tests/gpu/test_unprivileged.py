"""A training on the GPU is recorded whole by a user without any capability."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root"),
]
TRAINING = """
import time, torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.randn(64 * 300, 512), batch_size=64):
    time.sleep(0.02)
    model(batch.cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_CONFINED = (
    *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"),
    *("--inh-caps=-all", "--bounding-set=-all"),
)


def test_kernels_samples_and_stacks_need_no_capability() -> None:
    place = Path("/tmp/gapless-unprivileged")  # noqa: S108 - where that user may go, too
    place.mkdir()
    try:
        place.chmod(0o777)
        (place / "train.py").write_text(TRAINING)
        if run(place, "-c", "import gapless, torch").returncode:
            pytest.skip("that user cannot read this interpreter, or its packages")
        record = run(place, "-m", "gapless", "run", "--quiet", sys.executable, "train.py")
        assert record.returncode == 0, record.stderr
        document = json.loads(run(place, "-m", "gapless", "report", "--json").stdout)
    finally:
        shutil.rmtree(place)
    assert document["tables"]["kernels"]
    assert any(code["kind"] == "sleep" for code in document["host_code"])
    # Of whichever of the machine's GPUs the tests may use
    names = {series["name"].partition(".")[2] for series in document["machine"]}
    assert "power" in names
    if torch.cuda.get_device_capability() >= (9, 0):
        assert "gpm.sm" in names


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*_CONFINED, sys.executable, *words),
        cwd=place,
        env=os.environ | {"HOME": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
