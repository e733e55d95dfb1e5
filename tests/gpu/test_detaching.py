"""Behind a window CUPTI is detached, and the training notices nothing of that."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).with_name("detaching_fit.py")
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.gpu


def run_script(mode: str, *launcher: str, patience_s: float = 120) -> list[dict[str, Any]]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), mode],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]


def test_graphs_are_captured_and_replayed_beside_busy_threads() -> None:
    (result,) = run_script("graphs")
    assert all(result["right"])
    assert len(result["right"]) == 6
    assert min(result["beside"]) > 0
    assert min(result["kernels"]) >= 100


@pytest.mark.parametrize("number", range(4))
def test_a_process_ends_that_a_window_precedes(number: int) -> None:  # noqa: ARG001 - a race
    (result,) = run_script("ends", patience_s=60)
    assert min(result["kernels"]) >= 100


def test_the_profiler_of_the_user_sees_all_its_sessions() -> None:
    (result,) = run_script("profiled")
    assert result["same"]
    assert min(result["kernels"]) >= 100
    assert len(result["theirs"]) == 3
    assert min(result["theirs"]) >= 100


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_ranks_go_on_reducing() -> None:
    results = run_script("ranks", "-m", "torch.distributed.run", "--nproc-per-node=2")
    assert [result["rank"] for result in sorted(results, key=lambda result: result["rank"])] == [
        0,
        1,
    ]
    assert all(result["right"] and min(result["kernels"]) >= 100 for result in results)
