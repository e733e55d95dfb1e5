"""Launchers of several processes need nothing special."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gapless import wire
from tests.launch import starting

DDP = str(Path(__file__).with_name("ddp.py"))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def count_steps(log: Path) -> int:
    """Count the calls of an optimizer's step that a log holds."""
    frames, _ = wire.frames(log.read_bytes())
    bodies = (frame.body for frame in frames if frame.kind == wire.MARKS)
    return sum(mark[0] == wire.STEP for body in bodies for mark in wire.MARK.iter_unpack(body))


@pytest.mark.slow
def test_each_rank_of_torchrun_is_recorded(tmp_path: Path) -> None:
    plain_folder, recorded_folder = tmp_path / "plain", tmp_path / "recorded"
    plain_folder.mkdir()
    recorded_folder.mkdir()
    expected = starting.run_plainly([*TORCHRUN, DDP, "40"], plain_folder)
    process = starting.run([*TORCHRUN, DDP, "40"], recorded_folder, "--no-windows")
    assert (
        (process.returncode, process.stdout) == (expected.returncode, expected.stdout) == (0, b"")
    )
    for rank in (0, 1):
        name = f"rank{rank}.txt"
        assert (recorded_folder / name).read_text() == (plain_folder / name).read_text()
        assert count_steps(starting.run_folder(recorded_folder) / "logs" / f"rank{rank}.log") == 40


@pytest.mark.slow
def test_torchrun_is_checked_and_leaves_nothing(tmp_path: Path) -> None:
    command = [*starting.GAPLESS, "check", *TORCHRUN, DDP, "1000000"]
    process = starting.run_plainly(command, tmp_path)
    assert process.returncode == 0, process.stderr.decode()
    manifest = json.loads((starting.run_folder(tmp_path) / "run.json").read_text())
    assert manifest["stopped_by"] == "check"
    assert list((starting.run_folder(tmp_path) / "windows").iterdir())
    survivors = [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if DDP.encode() in starting.read_bytes(path)
    ]
    assert not survivors


@pytest.mark.slow
def test_a_shell_script_of_two_trainings_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "weight = torch.nn.Parameter(torch.ones(3))\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for _ in range(30):\n"
        "    weight.sum().backward()\n"
        "    optimizer.step()\n"
    )
    (tmp_path / "run.sh").write_text(
        f"set -e\n{sys.executable} train.py\n{sys.executable} train.py\n"
    )
    process = starting.run(["bash", "run.sh"], tmp_path, "--no-windows")
    assert process.returncode == 0
    logs = (starting.run_folder(tmp_path) / "logs").glob("rank*.log")
    assert sum(count_steps(log) for log in logs) == 60


@pytest.mark.slow
def test_a_first_verdict_comes_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, torch\n"
        "weight = torch.nn.Parameter(torch.ones(30, 30))\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for step in range(100_000):\n"
        "    (weight @ weight).sum().backward()\n"
        "    optimizer.step()\n"
        "    if os.path.exists('enough'):\n"
        "        break\n"
    )
    command = (*starting.GAPLESS, "run", "--early", sys.executable, "train.py")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first_page = process.stderr.readline()
        assert process.poll() is None
        (tmp_path / "enough").touch()
        last_page = process.stderr.read()
    assert first_page.startswith("gapless · ".encode())
    assert b"so far" in first_page
    assert last_page.startswith("gapless · ".encode())
    assert process.returncode == 0
