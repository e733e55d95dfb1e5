"""A command whose processes stand at each stage of a trial: ``stages.py FOLDER``.

Each writes a file when it is there. Several are children of this one, which imports torch once.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(sys.argv[1])
ALWAYS = 1000.0  # seconds
AHEAD = 2  # batches that a worker is asked for before they are needed


def at(stage: str) -> None:
    """Say that a stage is reached."""
    (FOLDER / stage).touch()


def start(stage: Callable[[], None]) -> None:
    """Let a child go through a stage."""
    if os.fork() == 0:
        stage()
        os._exit(9)


def before_torch() -> None:
    """Wait as a service does that has left its parent."""
    os.setsid()
    if os.fork() == 0:
        at("before_torch")
        time.sleep(ALWAYS)


start(before_torch)

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Slow(Dataset[torch.Tensor]):
    """Items of which one takes for ever."""

    def __init__(self, stage: str, number: int) -> None:
        self.stage, self.number = stage, number

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == self.number:
            at(self.stage)
            time.sleep(ALWAYS)
        return torch.ones(4)


def train(stage: str, number: int) -> None:
    """Train until the loader waits for ever."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for count, batch in enumerate(DataLoader(Slow(stage, number), num_workers=1)):
        model(batch).sum().backward()
        while count == number - AHEAD and not (FOLDER / stage).exists():
            time.sleep(0.01)  # the worker is asked for it by now, and may not be there yet
        optimizer.step()


start(lambda: train("in_the_first_batch", 0))
start(lambda: train("in_steps", 8))
start(lambda: train("at_exit", 11))  # its worker does not end when it is told to
time.sleep(ALWAYS)
