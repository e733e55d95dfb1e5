"""A private view leaves the GPU, pinned and shared memory as they are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

CONFINED = Path(__file__).parents[1] / "launch" / "confined.py"
TRAINING = """
import json, os, torch
from torch.utils.data import DataLoader
from torch import nn

model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(torch.randn(256, 64), batch_size=16, num_workers=2, pin_memory=True)
for batch in loader:
    model(batch.cuda(non_blocking=True)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
compiled = torch.compile(lambda x: x.sin() + x.cos())
torch.save(model.state_dict(), "model.pt")
print(json.dumps([
    torch.cuda.get_device_name(), batch.is_pinned(), bool(compiled(batch.cuda()).isfinite().all()),
    os.path.exists("model.pt"),
]))
"""
_IN_A_VIEW = """
import subprocess, sys
from pathlib import Path
from gapless.launch.trial import sandbox
folder = Path.cwd()
why = sandbox.explain_unavailable(folder)
if why is not None:
    print("no view:", why)
else:
    with sandbox.open_view(folder) as view:
        sys.exit(subprocess.run([*sandbox.prefix(view), *sys.argv[1:]]).returncode)
"""


@pytest.mark.parametrize("rights", ["root", "user"])
def test_a_training_on_the_gpu_runs_in_a_view_and_leaves_nothing(
    tmp_path: Path, rights: str
) -> None:
    confined = (sys.executable, str(CONFINED), "no-mounts") if rights == "user" else ()
    (tmp_path / "train.py").write_text(TRAINING)
    training = (sys.executable, "train.py")
    plain = subprocess.run(training, cwd=tmp_path, capture_output=True, check=True, timeout=300)
    (tmp_path / "model.pt").unlink()
    words = (*confined, sys.executable, "-c", _IN_A_VIEW, *training)
    process = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    if process.stdout.startswith("no view:"):
        pytest.skip(process.stdout.strip())
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == json.loads(plain.stdout)
    assert json.loads(process.stdout)[1:] == [True, True, True]
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
