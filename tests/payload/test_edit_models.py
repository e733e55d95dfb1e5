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
        self.first, self.second = Net(), Net()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(images))


class Loop(nn.Module):
    """A training loop that is a module, and is never called."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images)


Models = list[nn.Module]


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


@pytest.fixture
def met_models() -> Iterator[Models]:
    before = nn.Module.__init__, torch.optim.Optimizer.__init__
    met_models: Models = []
    undo = models.on_model(met_models.append)
    yield met_models
    undo()
    assert (nn.Module.__init__, torch.optim.Optimizer.__init__) == before


def make_optimizer(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_the_module_that_owns_an_optimizers_parameters_is_the_model(met_models: Models) -> None:
    net, _second_net = Net(), Net()
    assert met_models == []

    make_optimizer(net.parameters())
    make_optimizer(net.parameters())

    assert met_models == [net]


def test_a_model_that_was_made_before_is_found_too() -> None:
    net = Net()
    met_models: Models = []
    undo = models.on_model(met_models.append)
    make_optimizer(net.parameters())
    undo()
    make_optimizer(Net().parameters())

    assert met_models == [net]


def test_two_models_are_two(met_models: Models) -> None:
    two_nets = Two()
    make_optimizer(two_nets.first.parameters())
    make_optimizer(two_nets.second.parameters())

    assert met_models == [two_nets.first, two_nets.second]


def test_several_optimizers_of_one_model_are_one_model(met_models: Models) -> None:
    net = Net()
    make_optimizer([parameter for parameter in net.parameters() if parameter.dim() > 1])
    make_optimizer([parameter for parameter in net.parameters() if parameter.dim() == 1])

    assert met_models == [net]


def test_a_part_is_let_go_when_the_whole_is_trained_too(met_models: Models) -> None:
    reverted: Models = []
    undo = models.on_model(lambda module: lambda: reverted.append(module))
    two_nets = Two()
    make_optimizer(two_nets.first.parameters())
    make_optimizer(two_nets.parameters())
    assert (met_models, reverted) == ([two_nets.first, two_nets], [two_nets.first])

    undo()

    assert reverted == [two_nets.first, two_nets]


def test_a_head_on_a_frozen_network_is_trained_as_a_part_of_it(met_models: Models) -> None:
    two_nets = Two()
    two_nets.first.requires_grad_(requires_grad=False)
    make_optimizer(two_nets.second.parameters())

    assert met_models == [two_nets]


def test_parameters_of_a_loss_beside_the_model_do_not_hide_it(met_models: Models) -> None:
    net, loss = Net(), nn.Linear(1, 1)
    make_optimizer([*net.parameters(), *loss.parameters()])

    assert met_models == [net]


def test_a_training_loop_that_is_a_module_is_no_model(met_models: Models) -> None:
    loop = Loop(Net())
    make_optimizer(loop.parameters())

    assert met_models == [loop.net]


def test_parameters_without_a_module_are_no_model(met_models: Models) -> None:
    make_optimizer([torch.zeros(2, requires_grad=True)])

    assert met_models == []


def test_groups_that_are_added_later_are_looked_at(met_models: Models) -> None:
    net = Net()
    optimizer = make_optimizer([torch.zeros(2, requires_grad=True)])
    assert met_models == []
    optimizer.add_param_group({"params": list(net.parameters())})

    assert met_models == [net]


def test_what_compiles_or_spreads_a_model_is_not_the_model(met_models: Models) -> None:
    net = Net()
    shell: nn.Module = torch.compile(net, backend="eager")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType, reportUnknownVariableType]
    make_optimizer(shell.parameters())

    assert met_models == [net]
    assert models.inner(shell) is net
    assert [known_shell is shell for known_shell in models.shells(net)] == [True]


def copy_by_pickle(net: Net) -> Net:
    return pickle.loads(pickle.dumps(net))  # noqa: S301


@pytest.mark.usefixtures("process_group")
def test_a_model_is_met_before_it_is_spread(met_models: Models) -> None:
    shells = list[int]()
    undo = models.on_model(lambda module: shells.append(len(models.shells(module))))
    net = Net()
    ddp_net = nn.parallel.DistributedDataParallel(net)
    make_optimizer(ddp_net.parameters())
    undo()

    assert met_models == [net]
    assert shells == [0]
    assert models.inner(ddp_net) is net


def test_a_training_that_makes_an_optimizer_a_step_is_not_searched_for_ever() -> None:
    net, noted_ids = Net(), list[int]()
    undo = models.on_model(lambda module: noted_ids.append(id(module)))
    for _ in range(100):
        make_optimizer([torch.zeros(1, requires_grad=True)])
    make_optimizer(net.parameters())
    undo()

    assert noted_ids == []


@pytest.mark.parametrize("copy_net", [copy.deepcopy, copy_by_pickle])
def test_a_copy_that_is_trained_is_a_model(
    copy_net: Callable[[Net], Net], met_models: Models
) -> None:
    net = copy_net(Net())
    make_optimizer(net.parameters())

    assert met_models == [net]


def test_models_are_not_kept_alive(met_models: Models) -> None:
    def train_net() -> weakref.ref[nn.Module]:
        net = Net()
        make_optimizer(net.parameters())
        assert id(net) in models._modules.references
        return weakref.ref(net)

    nets = [train_net() for _ in range(3)]  # these alone: another file's may still be in use
    met_models.clear()
    gc.collect()

    assert [ref() for ref in nets] == [None, None, None]
    assert optimizers._watched.references == {}
