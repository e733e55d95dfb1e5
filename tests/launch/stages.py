"""A command whose processes stand at each stage of a trial: ``stages.py FOLDER``.

Each writes a file when it is there. Several are children of this one, which imports torch once.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(sys.argv[1])
FOREVER_S = 1000.0  # seconds
PREFETCHED = 2  # batches that a worker is asked for before they are needed


def report_stage(stage: str) -> None:
    """Say that a stage is reached."""
    (FOLDER / stage).touch()


def fork_stage(run_stage: Callable[[], None]) -> None:
    """Let a child go through a stage."""
    if os.fork() == 0:
        run_stage()
        os._exit(9)


def wait_before_torch() -> None:
    """Wait as a service does that has left its parent."""
    os.setsid()
    if os.fork() == 0:
        report_stage("before_torch")
        time.sleep(FOREVER_S)


fork_stage(wait_before_torch)

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class StuckDataset(Dataset[torch.Tensor]):
    """Items of which one takes for ever."""

    def __init__(self, stage: str, stuck_index: int) -> None:
        self.stage, self.number = stage, stuck_index

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.number:
            report_stage(self.stage)
            time.sleep(FOREVER_S)
        return torch.ones(4)


def train(stage: str, stuck_index: int) -> None:
    """Train until the loader waits for ever."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for count, batch in enumerate(DataLoader(StuckDataset(stage, stuck_index), num_workers=1)):
        model(batch).sum().backward()
        while count == stuck_index - PREFETCHED and not (FOLDER / stage).exists():
            time.sleep(0.01)  # the worker is asked for it by now, and may not be there yet
        optimizer.step()


fork_stage(lambda: train("in_the_first_batch", 0))
fork_stage(lambda: train("in_steps", 8))
fork_stage(lambda: train("at_exit", 11))  # its worker does not end when it is told to
time.sleep(FOREVER_S)
