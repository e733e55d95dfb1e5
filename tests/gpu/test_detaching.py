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


def told(what: str, *launcher: str, patience_s: float = 120) -> list[dict[str, Any]]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), what],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_graphs_are_captured_and_replayed_beside_busy_threads() -> None:
    (found,) = told("graphs")
    assert all(found["right"])
    assert len(found["right"]) == 6
    assert min(found["beside"]) > 0
    assert min(found["kernels"]) >= 100


@pytest.mark.parametrize("number", range(4))
def test_a_process_ends_that_a_window_precedes(number: int) -> None:  # noqa: ARG001 - a race
    (found,) = told("ends", patience_s=60)
    assert min(found["kernels"]) >= 100


def test_the_profiler_of_the_user_sees_all_its_sessions() -> None:
    (found,) = told("profiled")
    assert found["same"]
    assert min(found["kernels"]) >= 100
    assert len(found["theirs"]) == 3
    assert min(found["theirs"]) >= 100


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_ranks_go_on_reducing() -> None:
    found = told("ranks", "-m", "torch.distributed.run", "--nproc-per-node=2")
    assert [one["rank"] for one in sorted(found, key=lambda one: one["rank"])] == [0, 1]
    assert all(one["right"] and min(one["kernels"]) >= 100 for one in found)
