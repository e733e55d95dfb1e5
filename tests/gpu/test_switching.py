"""Edits switched in one process on a GPU: on the device's clock, no error, no drift."""

import sys
from pathlib import Path

import pytest

from gapless.model.edit import Edit, SetArgument, SetGlobal, Skip, Wrap
from gapless.verify.arms.arm import ArmPlan, make_runner
from gapless.verify.arms.blocks import read_blocks
from gapless.verify.specs import ArmSpec

pytestmark = pytest.mark.gpu
TRAINING = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-5, foreach=False)
batch = torch.randn(2048, 2048, device="cuda")
while True:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    torch.cuda.empty_cache()
    optimizer.step()
"""
EDITS: tuple[tuple[Edit, ...], ...] = (
    (Skip("torch.cuda.empty_cache"),),
    (SetArgument("torch.optim.AdamW", "fused", value=True),),
    (SetArgument("torch.optim.AdamW", "foreach", value=True),),
    (SetGlobal("torch.set_float32_matmul_precision", "high"),),
    (Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"}),),
)


def test_edits_are_switched_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = ArmPlan((sys.executable, "-c", TRAINING), tmp_path / "arms")
    run = make_runner(plan)(ArmSpec("A", 0, (), 10**9, 120.0, switched=EDITS))
    assert (run.failure, run.code) == (None, 0)
    assert run.recording is not None
    steps = read_blocks(run.recording, [len(edits) for edits in EDITS])
    assert steps is not None
    assert steps.on_device
    assert not steps.obstacles
    speedups = {side: steps.speedup(side) for side in range(1, len(EDITS) + 1)}
    assert None not in speedups.values()
    tf32, bf16 = speedups[4], speedups[5]
    assert tf32 is not None
    assert bf16 is not None
    assert min(tf32.low, bf16.low) > 1.2, "products on tensor cores are faster"
