"""A training of which parts can be made slower: ``benchmarks.gating`` plants lines at its marks."""

import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def burn(ms: float) -> None:
    """Keep the processor busy."""
    end = time.perf_counter() + ms / 1e3
    while time.perf_counter() < end:
        pass


class Signals(Dataset[tuple[torch.Tensor, int]]):
    """Made-up signals, which take a little time to make."""

    def __len__(self) -> int:
        """Count them."""
        return 1 << 16

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return a signal and its class."""
        burn(0.2)
        # what is planted in the loader stands here
        return torch.full((512,), index % 7.0), index % 10


class Descent(torch.optim.SGD):
    """An optimizer of one's own."""

    def step(self, closure: Any = None) -> Any:  # noqa: ANN401 - as torch has it
        """Make a step."""
        # what is planted in the optimizer stands here
        return super().step(closure)


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = Descent(model.parameters(), lr=0.01)
    for signals, classes in DataLoader(Signals(), batch_size=8):
        burn(2)
        # what is planted in the loop stands here
        loss = nn.functional.cross_entropy(model(signals), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
