"""A training, ready to be stepped: what is built once, and what makes the rest anew."""

from argparse import Namespace
from collections.abc import Callable, Generator
from typing import Any

from msgspec import Struct, field
from torch import device, nn

Steps = Generator[None]


class Job(Struct, frozen=True):
    """A model and data, built once; ``train`` makes loader and optimizer and steps on and on.

    ``train(job)`` gives a generator that yields once a step, at its end. Who closes it ends the
    training; a new one begins with fresh loader and optimizer on the same model and data.
    """

    model: nn.Module
    data: Any
    device: device
    options: Namespace
    train: "Callable[[Job], Steps]"
    loader: dict[str, Any] = field(default_factory=dict[str, Any])  # its arguments; none: no loader
    period: int = 1  # steps after which what is done now and then has been done once
