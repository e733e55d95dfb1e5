"""Flags of optimizers, switched between two steps and back."""

import pytest
import torch

from gapless.payload.trial.flags import FlagEdit


def make_optimizer() -> torch.optim.AdamW:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    step(optimizer)
    return optimizer


def step(optimizer: torch.optim.Optimizer) -> list[float]:
    (weight,) = optimizer.param_groups[0]["params"]
    weight.grad = torch.full((3,), 0.5)
    optimizer.step()
    return weight.tolist()


@pytest.mark.parametrize("name", ["fused", "foreach"])
def test_a_flag_is_set_and_put_back_and_the_training_stays_the_same(name: str) -> None:
    edit = FlagEdit(0, {"target": "torch.optim.AdamW", "name": name, "value": True})
    optimizer, reference = make_optimizer(), make_optimizer()
    before = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
    undo = edit.apply()
    assert optimizer.param_groups[0][name] is True
    assert step(optimizer) == pytest.approx(step(reference))
    undo()
    after = {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}
    assert after == before
    assert step(optimizer) == pytest.approx(step(reference))


def test_what_torch_would_refuse_is_refused_before_it_is_set() -> None:
    edit = FlagEdit(0, {"target": "torch.optim.LBFGS", "name": "fused", "value": True})
    optimizer = torch.optim.LBFGS([torch.nn.Parameter(torch.ones(3))])
    with pytest.raises(ValueError, match="LBFGS has no fused"):
        edit.apply()
    assert "fused" not in optimizer.param_groups[0]
