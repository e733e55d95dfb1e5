# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Autocast and the scaler take effect on a model that trains, and come off again."""

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from gapless.model.edit import Wrap
from tests.payload.laying import apply_edits
from tests.payload.small_nets import Net, images, make_optimizer, train_step

BF16 = Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"})


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def test_autocast_lowers_the_forward_and_gives_float32_back() -> None:
    with apply_edits(BF16) as edit_log:
        net = Net()
        make_optimizer(net)
        result = net(images(), scale=2.0)
        assert net.computed is not None
        assert net.computed.dtype is torch.bfloat16
        assert result["logits"].dtype is torch.float32
        assert result["classes"].dtype is torch.int64
        assert not torch.is_autocast_enabled("cpu")
        assert edit_log.times() == 1
    assert edit_log.values[0] == {
        "edit": 0,
        "target": "torch.autocast",
        "old": "float32",
        "new": "bfloat16",
        "times": 1,
    }
    assert "forward" not in vars(net)
    net(images())
    assert getattr(net.computed, "dtype", None) is torch.float32


def test_autocast_leaves_copies_pickles_and_signatures_alone() -> None:
    with apply_edits(BF16) as edit_log:
        net = Net()
        make_optimizer(net)
        assert list(inspect.signature(net.forward).parameters) == ["images", "scale"]
        for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):  # noqa: S301
            twin(images())
            assert getattr(twin.computed, "dtype", None) is torch.float32
            assert twin.forward(images())["logits"].shape == (4, 2)
        assert net.computed is None
        assert edit_log.times() == 0


def test_autocast_within_the_users_is_no_edit() -> None:
    with apply_edits(BF16) as edit_log:
        net = Net()
        make_optimizer(net)
        with torch.autocast("cpu", torch.bfloat16):
            assert net(images())["logits"].dtype is torch.bfloat16
        assert edit_log.times() == 0
        assert edit_log.unobserved == [
            "edit 0: torch.autocast: the forward is under autocast already"
        ]


def test_autocast_of_weights_that_are_low_already_is_no_edit() -> None:
    with apply_edits(BF16) as edit_log:
        net = Net().bfloat16()
        make_optimizer(net)
        net(images().bfloat16())
        assert edit_log.times() == 0
        assert "torch.bfloat16, not float32" in edit_log.unobserved[0]


def test_autocast_is_in_what_the_training_compiles() -> None:
    with apply_edits(BF16) as edit_log:
        net = Net()
        compiled: Any = torch.compile(net, backend="eager", fullgraph=True)
        optimizer = make_optimizer(net)
        plain = copy.deepcopy(net)
        assert compiled(images())["logits"].dtype is torch.float32
        batch = images()
        assert not torch.equal(compiled(batch)["logits"], plain(batch)["logits"])
        optimizer.step()
        edit_log.edge()
        assert edit_log.times() == 1


def test_the_scaler_scales_clips_and_steps_as_the_plain_training_does() -> None:
    def train(*, clip: bool) -> list[float]:
        torch.manual_seed(1)
        net = Net()
        optimizer, batch = make_optimizer(net), images()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        losses = list[float]()
        for number in range(6):
            loss = net(batch)["logits"].square().mean()
            (loss / 2).backward()
            if number % 2:
                if clip:
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    before = torch.autograd.backward, torch.optim.SGD.step, torch.nn.utils.clip_grad_norm_
    plain = [train(clip=clip) for clip in (False, True)]
    with apply_edits(Wrap("torch.optim.Optimizer", "grad-scaler")) as edit_log:
        edited = [train(clip=clip) for clip in (False, True)]
        assert edit_log.times() == 6
        assert edit_log.unobserved == []
    assert plain[0] != plain[1]
    assert edited[0] == pytest.approx(plain[0], rel=1e-6)
    assert edited[1] == pytest.approx(plain[1], rel=1e-6)
    assert before == (
        torch.autograd.backward,
        torch.optim.SGD.step,
        torch.nn.utils.clip_grad_norm_,
    )


def test_the_scaler_leaves_out_steps_that_overflow() -> None:
    with apply_edits(Wrap("torch.optim.Optimizer", "grad-scaler")) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        before = net.last.weight.detach().clone()
        (net(images())["logits"].sum() * 1e37).backward()
        optimizer.step()
        assert torch.equal(net.last.weight, before)
        optimizer.zero_grad()
        train_step(net, optimizer, images())
        assert not torch.equal(net.last.weight, before)
        assert edit_log.times() == 2


def test_two_models_with_an_optimizer_each_share_the_scaler() -> None:
    with apply_edits(Wrap("torch.optim.Optimizer", "grad-scaler")) as edit_log:
        nets = Net(), Net()
        optimizers = [make_optimizer(net) for net in nets]
        for _ in range(2):
            for net, optimizer in zip(nets, optimizers, strict=True):
                train_step(net, optimizer, images())
        assert edit_log.times() == 4
        assert edit_log.unobserved == []


def test_the_scaler_gives_way_to_the_users() -> None:
    with apply_edits(Wrap("torch.optim.Optimizer", "grad-scaler")) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
        scaler.scale(net(images())["logits"].sum()).backward()
        bias_gradient = net.last.bias.grad
        assert bias_gradient is not None
        assert torch.equal(bias_gradient, torch.full((2,), 16.0))
        scaler.step(optimizer)
        assert edit_log.unobserved == [
            "edit 0: torch.amp.GradScaler: the training has a scaler of its own"
        ]
        assert edit_log.times() == 0
