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
from tests.payload.laying import laid
from tests.payload.small_nets import Net, images, optimize, step

BF16 = Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"})


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def test_autocast_lowers_the_forward_and_gives_float32_back() -> None:
    with laid(BF16) as told:
        net = Net()
        optimize(net)
        result = net(images(), scale=2.0)
        assert net.computed is not None
        assert net.computed.dtype is torch.bfloat16
        assert result["logits"].dtype is torch.float32
        assert result["classes"].dtype is torch.int64
        assert not torch.is_autocast_enabled("cpu")
        assert told.times() == 1
    assert told.values[0] == {
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
    with laid(BF16) as told:
        net = Net()
        optimize(net)
        assert list(inspect.signature(net.forward).parameters) == ["images", "scale"]
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):  # noqa: S301
            other(images())
            assert getattr(other.computed, "dtype", None) is torch.float32
            assert other.forward(images())["logits"].shape == (4, 2)
        assert net.computed is None
        assert told.times() == 0


def test_autocast_within_the_users_is_no_edit() -> None:
    with laid(BF16) as told:
        net = Net()
        optimize(net)
        with torch.autocast("cpu", torch.bfloat16):
            assert net(images())["logits"].dtype is torch.bfloat16
        assert told.times() == 0
        assert told.unseen == ["edit 0: torch.autocast: the forward is under autocast already"]


def test_autocast_of_weights_that_are_low_already_is_no_edit() -> None:
    with laid(BF16) as told:
        net = Net().bfloat16()
        optimize(net)
        net(images().bfloat16())
        assert told.times() == 0
        assert "torch.bfloat16, not float32" in told.unseen[0]


def test_autocast_is_in_what_the_training_compiles() -> None:
    with laid(BF16) as told:
        net = Net()
        compiled: Any = torch.compile(net, backend="eager", fullgraph=True)
        optimizer = optimize(net)
        plain = copy.deepcopy(net)
        assert compiled(images())["logits"].dtype is torch.float32
        given = images()
        assert not torch.equal(compiled(given)["logits"], plain(given)["logits"])
        optimizer.step()
        told.edge()
        assert told.times() == 1


def test_the_scaler_scales_clips_and_steps_as_the_plain_training_does() -> None:
    def train(*, clip: bool) -> list[float]:
        torch.manual_seed(1)
        net = Net()
        optimizer, given = optimize(net), images()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        found = list[float]()
        for at in range(6):
            loss = net(given)["logits"].square().mean()
            (loss / 2).backward()
            if at % 2:
                if clip:
                    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            found.append(loss.item())
        return found

    before = torch.autograd.backward, torch.optim.SGD.step, torch.nn.utils.clip_grad_norm_
    plain = [train(clip=clip) for clip in (False, True)]
    with laid(Wrap("torch.optim.Optimizer", "grad-scaler")) as told:
        edited = [train(clip=clip) for clip in (False, True)]
        assert told.times() == 6
        assert told.unseen == []
    assert plain[0] != plain[1]
    assert edited[0] == pytest.approx(plain[0], rel=1e-6)
    assert edited[1] == pytest.approx(plain[1], rel=1e-6)
    assert before == (
        torch.autograd.backward,
        torch.optim.SGD.step,
        torch.nn.utils.clip_grad_norm_,
    )


def test_the_scaler_leaves_out_steps_that_overflow() -> None:
    with laid(Wrap("torch.optim.Optimizer", "grad-scaler")) as told:
        net = Net()
        optimizer = optimize(net)
        before = net.last.weight.detach().clone()
        (net(images())["logits"].sum() * 1e37).backward()
        optimizer.step()
        assert torch.equal(net.last.weight, before)
        optimizer.zero_grad()
        step(net, optimizer, images())
        assert not torch.equal(net.last.weight, before)
        assert told.times() == 2


def test_two_models_with_an_optimizer_each_share_the_scaler() -> None:
    with laid(Wrap("torch.optim.Optimizer", "grad-scaler")) as told:
        nets = Net(), Net()
        pair = [optimize(net) for net in nets]
        for _ in range(2):
            for net, optimizer in zip(nets, pair, strict=True):
                step(net, optimizer, images())
        assert told.times() == 4
        assert told.unseen == []


def test_the_scaler_gives_way_to_the_users() -> None:
    with laid(Wrap("torch.optim.Optimizer", "grad-scaler")) as told:
        net = Net()
        optimizer = optimize(net)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateImportUsage]
        scaler.scale(net(images())["logits"].sum()).backward()
        grown = net.last.bias.grad
        assert grown is not None
        assert torch.equal(grown, torch.full((2,), 16.0))
        scaler.step(optimizer)
        assert told.unseen == ["edit 0: torch.amp.GradScaler: the training has a scaler of its own"]
        assert told.times() == 0
