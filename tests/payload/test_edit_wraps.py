# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Wraps take effect on a model that trains, come off again, and say why where they cannot."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gapless.model.edit import Wrap
from tests.payload.laying import laid
from tests.payload.small_nets import Net, images, optimize, step

BF16 = Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"})
LAST = Wrap("torch.nn.Module", "channels-last")


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def test_images_and_weights_have_their_channels_last() -> None:
    form = torch.channels_last
    with laid(LAST) as told:
        net = Net()
        optimizer = optimize(net)
        weight = net.first.weight
        plain = copy.deepcopy(net)
        given = images()
        loss = step(net, optimizer, given)
        assert net.given is not None
        assert net.given.is_contiguous(memory_format=form)
        assert net.computed is not None
        assert net.computed.is_contiguous(memory_format=form)
        assert given.is_contiguous()
        assert weight.is_contiguous(memory_format=form)
        assert told.times() == 1
    assert loss == pytest.approx(step(plain, optimize(plain), given), rel=1e-5)
    assert net.first.weight is weight
    assert weight.is_contiguous()
    net(given)
    assert net.given is given


@pytest.mark.parametrize("edit", [LAST, Wrap("torch.nn.Module", "autocast")])
def test_a_model_is_saved_whole_as_ever(edit: Wrap) -> None:
    with laid(edit) as told:
        net = Net()
        optimizer = optimize(net)
        whole = pickle.dumps(net)
        step(net, optimizer, images())
        assert told.times() == 1
    assert whole.count(b"gapless") == 0
    loaded = pickle.loads(whole)  # noqa: S301
    given = images()
    step(loaded, optimize(loaded), given)
    assert loaded.given is given
    assert loaded.computed.dtype is torch.float32


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: nn.Linear(2, 2), "it has no 4-D weights"),
        (lambda: Net().to(memory_format=torch.channels_last), "its weights are channels-last"),  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    ],
)
def test_where_no_layout_can_change_it_says_so(make: Callable[[], nn.Module], why: str) -> None:
    with laid(LAST) as told:
        optimize(make())
        assert len(told.unseen) == 1
        assert why in told.unseen[0]


def compiling(**options: Any) -> Wrap:  # noqa: ANN401 - torch's
    return Wrap("torch.nn.Module", "compile", options)


def test_a_model_is_compiled_in_place() -> None:
    with laid(compiling(mode=None, dynamic=None, backend="eager")) as told:
        net = Net()
        optimizer = optimize(net)
        plain = copy.deepcopy(net)
        given = images()
        losses = [step(net, optimizer, given) for _ in range(2)]
        assert net.given is None  # its forward ran as a graph only
        assert told.times() == 2
        assert told.unseen == []
        pickle.dumps(net)
    assert losses[0] == pytest.approx(step(plain, optimize(plain), given))
    net(given)
    assert net.given is given


def test_what_cannot_be_compiled_goes_on_and_says_so() -> None:
    def broken(_graph: object, _given: object) -> None:
        raise ValueError("no such thing")

    torch._dynamo.register_backend(broken, "broken")  # noqa: SLF001  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
    with laid(compiling(backend="broken")) as told:
        net = Net()
        optimizer = optimize(net)
        assert step(net, optimizer, images()) > 0
        assert told.times() == 0
        assert "no such thing" in told.unseen[0]
        assert net.given is not None


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own imports
def test_graphs_are_not_captured_of_tensors_on_the_cpu() -> None:
    with laid(compiling(mode="reduce-overhead")) as told:
        net = Net()
        optimizer = optimize(net)
        step(net, optimizer, images())
        assert told.times() == 0
        assert told.unseen == [
            "edit 0: torch.nn.Module.compile: CUDA graphs cannot hold tensors on cpu"
        ]


def test_what_is_compiled_already_is_not_compiled_again() -> None:
    with laid(compiling()) as told:
        shell: Any = torch.compile(Net(), backend="eager")
        optimize(shell)
        assert told.unseen == ["edit 0: torch.nn.Module.compile: it is compiled already"]


def test_a_lower_precision_a_layout_and_compiling_go_together() -> None:
    with laid(BF16, LAST, compiling(backend="eager", fullgraph=True)) as told:
        net = Net()
        optimizer = optimize(net)
        for at in range(2):
            step(net, optimizer, images())
            told.edge()
            assert [told.times(number) for number in range(3)] == [at + 1] * 3
        assert told.unseen == []


ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


@pytest.mark.parametrize("backend", ["math", "flash"])
def test_attention_uses_the_backend(backend: str) -> None:
    cuda = torch.backends.cuda
    before = nn.functional.scaled_dot_product_attention, cuda.flash_sdp_enabled()
    with laid(Wrap(ATTENTION, "sdpa", {"backend": backend})) as told:
        one = torch.randn(1, 2, 8, 8)
        nn.functional.scaled_dot_product_attention(one, one, one, is_causal=True)
        assert told.times() == 1
        assert told.unseen == []
        assert cuda.flash_sdp_enabled() is (backend == "flash")
        assert not cuda.mem_efficient_sdp_enabled()
    assert before == (nn.functional.scaled_dot_product_attention, cuda.flash_sdp_enabled())
    assert cuda.mem_efficient_sdp_enabled()


def test_attention_that_the_backend_cannot_do_is_told() -> None:
    with laid(Wrap(ATTENTION, "sdpa", {"backend": "cudnn"})) as told:
        one = torch.randn(1, 2, 8, 8)
        nn.functional.scaled_dot_product_attention(one, one, one)
        assert told.times() == 0
        assert "torch uses math for a call that cudnn cannot do" in told.unseen[0]


class Attending(nn.Module):
    """Has everything that wraps reach into."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = checkpoint(self.first, images, use_reentrant=False).flatten(2)
        return nn.functional.scaled_dot_product_attention(found, found, found)


@pytest.mark.parametrize(
    "edit",
    [
        LAST,
        Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off"),
        Wrap(ATTENTION, "sdpa", {"backend": "math"}),
    ],
    ids=["channels-last", "checkpointing-off", "sdpa"],
)
def test_what_the_training_compiles_has_the_edit_in_it_and_tells(edit: Wrap) -> None:
    with laid(edit) as told:
        net = Attending()
        compiled: Any = torch.compile(net, backend="eager", fullgraph=True)
        optimizer = optimize(net)
        for at in range(2):
            compiled(images()).square().sum().backward()
            optimizer.step()
            told.edge()
            assert told.times() > at
        assert told.unseen == []
