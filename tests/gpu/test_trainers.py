"""Trainers of others on a GPU: recorded unedited, with the result of the plain run."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gapless import wire
from gapless.store.run import recordings

pytestmark = pytest.mark.gpu
FOLDER = Path(__file__).parent


def run_to_end(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("script", "package", "steps"),
    [("lightning_fit.py", "lightning", 192), ("trainer_fit.py", "transformers", 64)],
)
def test_a_trainer_is_recorded_as_it_is(
    script: str, package: str, steps: int, tmp_path: Path
) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    training = [sys.executable, str(FOLDER / script)]
    plain = run_to_end(training)
    recorded = run_to_end(
        [sys.executable, "-m", "gapless", "run", "--out", str(tmp_path), *training]
    )
    assert (recorded.returncode, plain.returncode) == (0, 0), recorded.stderr
    assert recorded.stdout.splitlines()[-1].split()[1] == plain.stdout.splitlines()[-1].split()[1]
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())
    recording = recordings.load(run)
    kinds = [process.marks.kind for process in recording.processes if process.role == "training"]
    assert max(int((kind == wire.STEP).sum()) for kind in kinds) == steps


def test_the_hooks_add_no_synchronising_call(tmp_path: Path) -> None:
    """Count what torch itself warns of, with and without the recorder."""
    script = tmp_path / "train.py"
    script.write_text(
        "import warnings, torch\n"
        "net = torch.nn.Linear(64, 64).cuda()\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "warnings.simplefilter('ignore')\n"
        "torch.cuda.set_sync_debug_mode('warn')\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    for step in range(60):\n"
        "        loss = net(torch.ones(8, 64, device='cuda')).sum()\n"
        "        loss.backward()\n"
        "        opt.step()\n"
        "        opt.zero_grad()\n"
        "        if step % 20 == 0:\n"
        "            loss.item()\n"
        "print(len(seen))\n"
    )
    plain = run_to_end([sys.executable, str(script)])
    command = [sys.executable, "-m", "gapless", "run", "--no-windows", "--out", str(tmp_path)]
    recorded = run_to_end([*command, sys.executable, str(script)])
    assert plain.stdout == "3\n"
    assert recorded.stdout == plain.stdout
