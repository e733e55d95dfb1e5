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
from tests.payload.laying import apply_edits
from tests.payload.small_nets import Net, images, make_optimizer, train_step

BF16 = Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"})
CHANNELS_LAST = Wrap("torch.nn.Module", "channels-last")


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def test_images_and_weights_have_their_channels_last() -> None:
    layout = torch.channels_last
    with apply_edits(CHANNELS_LAST) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        weight = net.first.weight
        plain = copy.deepcopy(net)
        batch = images()
        loss = train_step(net, optimizer, batch)
        assert net.inputs is not None
        assert net.inputs.is_contiguous(memory_format=layout)
        assert net.computed is not None
        assert net.computed.is_contiguous(memory_format=layout)
        assert batch.is_contiguous()
        assert weight.is_contiguous(memory_format=layout)
        assert edit_log.times() == 1
    assert loss == pytest.approx(train_step(plain, make_optimizer(plain), batch), rel=1e-5)
    assert net.first.weight is weight
    assert weight.is_contiguous()
    net(batch)
    assert net.inputs is batch


@pytest.mark.parametrize("edit", [CHANNELS_LAST, Wrap("torch.nn.Module", "autocast")])
def test_a_model_is_saved_whole_as_ever(edit: Wrap) -> None:
    with apply_edits(edit) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        pickled = pickle.dumps(net)
        train_step(net, optimizer, images())
        assert edit_log.times() == 1
    assert pickled.count(b"gapless") == 0
    loaded = pickle.loads(pickled)  # noqa: S301
    batch = images()
    train_step(loaded, make_optimizer(loaded), batch)
    assert loaded.inputs is batch
    assert loaded.computed.dtype is torch.float32


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: nn.Linear(2, 2), "it has no 4-D weights"),
        (lambda: Net().to(memory_format=torch.channels_last), "its weights are channels-last"),  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    ],
)
def test_where_no_layout_can_change_it_says_so(make: Callable[[], nn.Module], why: str) -> None:
    with apply_edits(CHANNELS_LAST) as edit_log:
        make_optimizer(make())
        assert len(edit_log.unobserved) == 1
        assert why in edit_log.unobserved[0]


def compile_wrap(**options: Any) -> Wrap:  # noqa: ANN401 - torch's
    return Wrap("torch.nn.Module", "compile", options)


def test_a_model_is_compiled_in_place() -> None:
    with apply_edits(compile_wrap(mode=None, dynamic=None, backend="eager")) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        plain = copy.deepcopy(net)
        batch = images()
        losses = [train_step(net, optimizer, batch) for _ in range(2)]
        assert net.inputs is None  # its forward ran as a graph only
        assert edit_log.times() == 2
        assert edit_log.unobserved == []
        pickle.dumps(net)
    assert losses[0] == pytest.approx(train_step(plain, make_optimizer(plain), batch))
    net(batch)
    assert net.inputs is batch


def test_what_cannot_be_compiled_goes_on_and_says_so() -> None:
    def fail_compiling(_graph: object, _inputs: object) -> None:
        raise ValueError("no such thing")

    torch._dynamo.register_backend(fail_compiling, "broken")  # noqa: SLF001  # type: ignore[attr-defined]  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
    with apply_edits(compile_wrap(backend="broken")) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        assert train_step(net, optimizer, images()) > 0
        assert edit_log.times() == 0
        assert "no such thing" in edit_log.unobserved[0]
        assert net.inputs is not None


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own imports
def test_graphs_are_not_captured_of_tensors_on_the_cpu() -> None:
    with apply_edits(compile_wrap(mode="reduce-overhead")) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        train_step(net, optimizer, images())
        assert edit_log.times() == 0
        assert edit_log.unobserved == [
            "edit 0: torch.nn.Module.compile: CUDA graphs cannot hold tensors on cpu"
        ]


def test_what_is_compiled_already_is_not_compiled_again() -> None:
    with apply_edits(compile_wrap()) as edit_log:
        shell: Any = torch.compile(Net(), backend="eager")
        make_optimizer(shell)
        assert edit_log.unobserved == ["edit 0: torch.nn.Module.compile: it is compiled already"]


def test_a_lower_precision_a_layout_and_compiling_go_together() -> None:
    with apply_edits(
        BF16, CHANNELS_LAST, compile_wrap(backend="eager", fullgraph=True)
    ) as edit_log:
        net = Net()
        optimizer = make_optimizer(net)
        for step_index in range(2):
            train_step(net, optimizer, images())
            edit_log.edge()
            assert [edit_log.times(number) for number in range(3)] == [step_index + 1] * 3
        assert edit_log.unobserved == []


ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


@pytest.mark.parametrize("backend", ["math", "flash"])
def test_attention_uses_the_backend(backend: str) -> None:
    cuda = torch.backends.cuda
    before = nn.functional.scaled_dot_product_attention, cuda.flash_sdp_enabled()
    with apply_edits(Wrap(ATTENTION, "sdpa", {"backend": backend})) as edit_log:
        query = torch.randn(1, 2, 8, 8)
        nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        assert edit_log.times() == 1
        assert edit_log.unobserved == []
        assert cuda.flash_sdp_enabled() is (backend == "flash")
        assert not cuda.mem_efficient_sdp_enabled()
    assert before == (nn.functional.scaled_dot_product_attention, cuda.flash_sdp_enabled())
    assert cuda.mem_efficient_sdp_enabled()


def test_attention_that_the_backend_cannot_do_is_told() -> None:
    with apply_edits(Wrap(ATTENTION, "sdpa", {"backend": "cudnn"})) as edit_log:
        query = torch.randn(1, 2, 8, 8)
        nn.functional.scaled_dot_product_attention(query, query, query)
        assert edit_log.times() == 0
        assert "torch uses math for a call that cudnn cannot do" in edit_log.unobserved[0]


class Attending(nn.Module):
    """Has everything that wraps reach into."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = checkpoint(self.first, images, use_reentrant=False).flatten(2)
        return nn.functional.scaled_dot_product_attention(features, features, features)


@pytest.mark.parametrize(
    "edit",
    [
        CHANNELS_LAST,
        Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off"),
        Wrap(ATTENTION, "sdpa", {"backend": "math"}),
    ],
    ids=["channels-last", "checkpointing-off", "sdpa"],
)
def test_what_the_training_compiles_has_the_edit_in_it_and_tells(edit: Wrap) -> None:
    with apply_edits(edit) as edit_log:
        net = Attending()
        compiled: Any = torch.compile(net, backend="eager", fullgraph=True)
        optimizer = make_optimizer(net)
        for step_index in range(2):
            compiled(images()).square().sum().backward()
            optimizer.step()
            edit_log.edge()
            assert edit_log.times() > step_index
        assert edit_log.unobserved == []
