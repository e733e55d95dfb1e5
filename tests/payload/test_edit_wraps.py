# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Wraps take effect on a model that trains, come off again, and say why where they cannot."""

import copy
import gc
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gapless.model.edit import Wrap
from tests.payload.laying import Told, laid

BF16 = Wrap("torch.nn.Module", "autocast", {"dtype": "bfloat16"})
LAST = Wrap("torch.nn.Module", "channels-last")


class Net(nn.Module):
    """Remembers what its forward was given."""

    def __init__(self, *, wide: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, wide, 3, padding=1)
        self.last = nn.Linear(wide, 2)
        self.given: torch.Tensor | None = None
        self.computed: torch.Tensor | None = None

    def forward(self, images: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        found = self.first(images)
        if not torch.compiler.is_compiling():
            self.given, self.computed = images, found
        logits = self.last(found.mean((2, 3))) * scale
        return {"logits": logits, "classes": logits.argmax(1)}


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def images() -> torch.Tensor:
    return torch.randn(4, 3, 6, 6)


def optimize(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, given: torch.Tensor) -> float:
    loss = model(given)["logits"].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


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
        assert told.unseen == ["edit: 0: torch.autocast: the forward is under autocast already"]


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
        assert told.unseen == [
            "edit: 0: torch.amp.GradScaler: the training has a scaler of its own"
        ]
        assert told.times() == 0


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
            "edit: 0: torch.nn.Module.compile: CUDA graphs cannot hold tensors on cpu"
        ]


def test_what_is_compiled_already_is_not_compiled_again() -> None:
    with laid(compiling()) as told:
        shell: Any = torch.compile(Net(), backend="eager")
        optimize(shell)
        assert told.unseen == ["edit: 0: torch.nn.Module.compile: it is compiled already"]


class Deep(nn.Module):
    """Computes its middle again in the backward pass."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - torch's
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.middle = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Dropout())
        self.options = options
        self.calls = 0
        self.middle.register_forward_pre_hook(self.count)

    def count(self, *_: object) -> None:
        self.calls += 1

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        found = checkpoint(self.middle, self.first(values), **self.options)
        both = [self.middle, nn.Sequential(nn.Dropout())]
        return checkpoint_sequential(both, 2, found, use_reentrant=False)


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": False},
        {"use_reentrant": True},
        {"use_reentrant": False, "preserve_rng_state": True, "debug": False},
    ],
)
def test_nothing_is_computed_again_and_losses_and_random_numbers_are_the_same(
    options: dict[str, bool],
) -> None:
    def train() -> tuple[list[float], int, torch.Tensor]:
        torch.manual_seed(3)
        net = Deep(**options)
        optimizer = optimize(net)
        losses = list[float]()
        for _ in range(3):
            loss = net(torch.randn(5, 4)).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, net.calls, torch.get_rng_state()

    losses, calls, state = train()
    with laid(Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off")) as told:
        edited = train()
        assert told.times() == 6
    assert (calls, edited[1]) == (12, 6)
    assert edited[0] == losses
    assert torch.equal(edited[2], state)
    assert train()[1] == 12


def test_a_checkpoint_that_cuts_the_gradients_off_stays() -> None:
    def cut() -> bool:
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
            return checkpoint(nn.Linear(2, 2), torch.ones(2), use_reentrant=True).requires_grad  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]

    plain = cut()
    with laid(Wrap("torch.utils.checkpoint.checkpoint", "checkpointing-off")) as told:
        assert cut() is plain
        assert told.times() == 0
        assert "reentrant" in told.unseen[0]


@pytest.fixture
def collecting() -> Iterator[None]:
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    yield
    assert gc.isenabled()
    assert not gc.get_freeze_count()


def edges(told: Told, many: int) -> list[int]:
    """Give the edges at which a cycle made before them was collected."""
    freed = list[int]()
    for at in range(many):
        made = Cycle(at, freed)
        made.itself = made
        del made
        told.edge(at)
    return freed


class Cycle:
    """Notes when it is collected."""

    def __init__(self, at: int, freed: list[int]) -> None:
        self.itself: Cycle | None = None
        self.at, self.freed = at, freed

    def __del__(self) -> None:
        self.freed.append(self.at)


@pytest.mark.usefixtures("collecting")
def test_the_collector_runs_at_each_so_manyth_edge_only() -> None:
    with laid(Wrap("gc", "collector", {"every": 3, "freeze": True})) as told:
        freed = edges(told, 6)
        assert freed == [0, 1, 2, 3]  # the first when all was frozen, the others at the fourth edge
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert told.times() == 1
        assert told.values[0]["new"] == "every 3 steps"


@pytest.mark.usefixtures("collecting")
def test_a_training_that_turns_the_collector_on_has_it() -> None:
    with laid(Wrap("gc", "collector", {"every": None, "freeze": True})) as told:
        told.edge()
        assert not gc.isenabled()
        gc.enable()
        told.edge()
        assert not gc.get_freeze_count()
        assert told.unseen == ["edit: 0: gc: the training turns collections on again"]


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
