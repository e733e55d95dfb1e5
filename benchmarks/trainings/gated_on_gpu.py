"""A training that its GPU bounds, with marks where ``benchmarks.gating_in_turns`` plants lines.

Where ``GATED_HOME`` names a folder, trainings that ``GATED_LANE`` gives the same name to have the
GPU to themselves from their first step on: gates that run side by side do not disturb one another.
"""

import fcntl
import itertools
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, BATCH = (4096, 4096) if DEVICE == "cuda" else (256, 256)
BALLAST = (16 << 20) if DEVICE == "cuda" else (1 << 16)  # numbers that a planted line goes over


def take_device() -> None:
    """Wait until no training of another lane is left; leave by ending."""
    home, lane = os.environ.get("GATED_HOME"), os.environ.get("GATED_LANE", "")
    while home:
        with Path(home, "holders").open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            holders = [line.split() for line in file.read().splitlines()]
            alive = [(name, pid) for name, pid in holders if Path("/proc", pid).exists()]
            if all(name == lane for name, _ in alive):
                alive.append((lane, str(os.getpid())))
                home = None
            file.truncate(0)
            file.write("".join(f"{name} {pid}\n" for name, pid in alive))
        time.sleep(0.02)


def make_ballast() -> torch.Tensor:
    """Return what a planted line goes over."""
    return torch.zeros(BALLAST, device=DEVICE)


class Descent(torch.optim.SGD):
    """An optimizer of one's own."""

    def __init__(self, parameters: Iterable[Tensor], ballast: Tensor) -> None:
        super().__init__(parameters, lr=0.001)
        self.ballast = ballast

    def step(self, closure: Any = None) -> Any:  # noqa: ANN401 - as torch has it
        """Make a step."""
        # what is planted in the optimizer stands here
        return super().step(closure)


def main() -> None:
    """Train."""
    take_device()  # before anything is done on it
    ballast = make_ballast()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(DEVICE)
    optimizer = Descent(model.parameters(), ballast)
    signals = torch.randn(BATCH, WIDTH, device=DEVICE)
    for _ in itertools.count():
        # what is planted in the loop stands here
        loss = model(signals).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
