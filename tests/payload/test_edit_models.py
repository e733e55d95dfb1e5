# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false
"""Models are met before they train, once each, whatever they are wrapped in."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, nn

from gapless.payload.overlay import models, optimizers


class Net(nn.Module):
    """All layers in one part, as many write it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


class Two(nn.Module):
    """Two networks in one module, each trained by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Net(), Net()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.other(self.one(images))


class Loop(nn.Module):
    """A training loop that is a module, and is never called."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images)


Seen = list[nn.Module]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


@pytest.fixture
def seen() -> Iterator[Seen]:
    before = nn.Module.__init__, torch.optim.Optimizer.__init__
    met: Seen = []
    undo = models.on_model(met.append)
    yield met
    undo()
    assert (nn.Module.__init__, torch.optim.Optimizer.__init__) == before


def train(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_the_module_that_owns_an_optimizers_parameters_is_the_model(seen: Seen) -> None:
    net, _other = Net(), Net()
    assert seen == []

    train(net.parameters())
    train(net.parameters())

    assert seen == [net]


def test_a_model_that_was_made_before_is_found_too() -> None:
    net = Net()
    met: Seen = []
    undo = models.on_model(met.append)
    train(net.parameters())
    undo()
    train(Net().parameters())

    assert met == [net]


def test_two_models_are_two(seen: Seen) -> None:
    both = Two()
    train(both.one.parameters())
    train(both.other.parameters())

    assert seen == [both.one, both.other]


def test_several_optimizers_of_one_model_are_one_model(seen: Seen) -> None:
    net = Net()
    train([one for one in net.parameters() if one.dim() > 1])
    train([one for one in net.parameters() if one.dim() == 1])

    assert seen == [net]


def test_a_part_is_let_go_when_the_whole_is_trained_too(seen: Seen) -> None:
    undone: Seen = []
    undo = models.on_model(lambda module: lambda: undone.append(module))
    both = Two()
    train(both.one.parameters())
    train(both.parameters())
    assert (seen, undone) == ([both.one, both], [both.one])

    undo()

    assert undone == [both.one, both]


def test_a_head_on_a_frozen_network_is_trained_as_a_part_of_it(seen: Seen) -> None:
    both = Two()
    both.one.requires_grad_(requires_grad=False)
    train(both.other.parameters())

    assert seen == [both]


def test_parameters_of_a_loss_beside_the_model_do_not_hide_it(seen: Seen) -> None:
    net, loss = Net(), nn.Linear(1, 1)
    train([*net.parameters(), *loss.parameters()])

    assert seen == [net]


def test_a_training_loop_that_is_a_module_is_no_model(seen: Seen) -> None:
    loop = Loop(Net())
    train(loop.parameters())

    assert seen == [loop.net]


def test_parameters_without_a_module_are_no_model(seen: Seen) -> None:
    train([torch.zeros(2, requires_grad=True)])

    assert seen == []


def test_groups_that_are_added_later_are_looked_at(seen: Seen) -> None:
    net = Net()
    optimizer = train([torch.zeros(2, requires_grad=True)])
    assert seen == []
    optimizer.add_param_group({"params": list(net.parameters())})

    assert seen == [net]


def test_what_compiles_or_spreads_a_model_is_not_the_model(seen: Seen) -> None:
    net = Net()
    shell: nn.Module = torch.compile(net, backend="eager")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType, reportUnknownVariableType]
    train(shell.parameters())

    assert seen == [net]
    assert models.inner(shell) is net
    assert [one is shell for one in models.shells(net)] == [True]


def pickled(net: Net) -> Net:
    return pickle.loads(pickle.dumps(net))  # noqa: S301


@pytest.mark.usefixtures("alone")
def test_a_model_is_met_before_it_is_spread(seen: Seen) -> None:
    shells = list[int]()
    undo = models.on_model(lambda module: shells.append(len(models.shells(module))))
    net = Net()
    spread = nn.parallel.DistributedDataParallel(net)
    train(spread.parameters())
    undo()

    assert seen == [net]
    assert shells == [0]
    assert models.inner(spread) is net


def test_a_training_that_makes_an_optimizer_a_step_is_not_searched_for_ever() -> None:
    net, looked = Net(), list[int]()
    undo = models.on_model(lambda module: looked.append(id(module)))
    for _ in range(100):
        train([torch.zeros(1, requires_grad=True)])
    train(net.parameters())
    undo()

    assert looked == []


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_that_is_trained_is_a_model(copied: Callable[[Net], Net], seen: Seen) -> None:
    net = copied(Net())
    train(net.parameters())

    assert seen == [net]


def test_models_are_not_kept_alive(seen: Seen) -> None:
    def trained() -> weakref.ref[nn.Module]:
        net = Net()
        train(net.parameters())
        assert id(net) in models._modules
        return weakref.ref(net)

    nets = [trained() for _ in range(3)]  # these alone: another file's may still be in use
    seen.clear()
    gc.collect()

    assert [ref() for ref in nets] == [None, None, None]
    assert optimizers._ready == {}
