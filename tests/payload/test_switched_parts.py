"""Parts that are switched on while a training runs, and off again."""

import copy
import logging
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from gapless.payload import overlay
from gapless.payload.overlay import models
from gapless.payload.trial import block_memory, losses

Undo = Callable[[], None]


@pytest.fixture(autouse=True)
def watch() -> Iterator[None]:
    """Know models and optimizers from the start, as a process does in which edits are switched."""
    undo = models.on_model(lambda _module: None)
    yield
    undo()


class Training:
    """A convolution that learns with momentum."""

    def __init__(self) -> None:
        convolution = nn.Conv2d(3, 4, 3)
        self.weight = convolution.weight
        self.model = nn.Sequential(convolution, nn.Flatten(), nn.Linear(144, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)
        self.step()

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        self.model(torch.ones(2, 3, 8, 8)).square().mean().backward()
        self.optimizer.step()

    def forms(self) -> list[bool]:
        """Return whether the weights, their gradients and momenta have the channels last."""
        momentum = self.optimizer.state[self.weight]["momentum_buffer"]
        assert self.weight.grad is not None
        return [
            tensor.is_contiguous(memory_format=torch.channels_last)
            for tensor in (self.weight, self.weight.grad, momentum)
        ]


def wrap(target: str, part: str, **options: object) -> dict[str, object]:
    return {"kind": "wrap", "target": target, "part": part, "options": options}


def test_what_belongs_to_weights_has_their_memory_format() -> None:
    training = Training()
    reference = copy.deepcopy(training)
    assert training.forms() == [False] * 3
    undo = overlay.apply_edit(1000, wrap("torch.nn.Module", "channels-last"))
    assert training.forms() == [True] * 3
    training.step()
    assert training.forms() == [True] * 3
    undo()
    assert training.forms() == [False] * 3
    training.step()
    reference.step()
    reference.step()
    for mine, others in zip(training.model.parameters(), reference.model.parameters(), strict=True):
        assert torch.allclose(mine, others, atol=1e-5)


def test_a_scaler_is_put_around_optimizers_that_are_there() -> None:
    training = Training()
    undo = overlay.apply_edit(1000, wrap("torch.optim.Optimizer", "grad-scaler"))
    largest = list[float]()

    def look(gradient: torch.Tensor) -> None:
        largest.append(float(gradient.abs().max()))

    training.weight.register_hook(look)
    before = training.weight.detach().clone()
    training.step()
    undo()
    training.step()
    assert largest[0] > 1000 * largest[1]
    assert (training.weight - before).abs().max() < 1


def test_every_tenth_time_is_counted_on_when_an_edit_is_on_again() -> None:
    said = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("switched")
    logger.addHandler(handler)
    Training()
    edit = wrap("logging", "cadence", what="logging", every=4)
    for _ in range(4):
        undo = overlay.apply_edit(1000, edit)
        torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1)  # from when on it is quiet
        for _ in range(3):
            logger.warning("a step")
        undo()
    assert len(said) == 3, "every fourth of twelve, though each time it is on there are three"


def test_the_peak_of_a_block_is_known_on_a_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = list[dict[str, int]]()

    def keep_fact(_noun: str, _of: object, values: dict[str, int]) -> None:
        facts.append(values)

    monkeypatch.setattr(block_memory.recorder, "fact", keep_fact)
    block_memory.begin()
    block_memory.end(0)
    assert facts == [], "absent is absent"
    peaks = iter([300, 200, 250])
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: next(peaks))
    for side in (0, 1, 1):
        block_memory.begin()
        block_memory.end(side)
    assert facts == [
        {"side": side, "memory_peak": peak} for side, peak in ((0, 300), (1, 200), (1, 250))
    ]


def test_the_mean_loss_of_a_block_is_known_unless_it_is_scaled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backward, state = losses.__dict__["_backward"], losses.__dict__["_losses"]
    monkeypatch.setattr(state, "is_last_kept", True)
    for value in (7.0, 1.0, 2.0):
        if value == 1.0:
            losses.begin_block()
        backward((torch.tensor(value, requires_grad=True),), {})
    backward((torch.ones(2, requires_grad=True),), {})
    assert losses.find_block_mean() == 1.5
    assert losses.find_block_mean() is None
    backward((torch.tensor(1.0, requires_grad=True),), {})
    monkeypatch.setattr(state, "is_scaled", True)
    assert losses.find_block_mean() is None
    state.fork()
