"""A training whose steps are of a chosen length, until a time is over; workers or not."""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

ENDLESS = 1 << 30


class Numbers(Dataset[Tensor]):
    """Samples that cost next to nothing."""

    def __len__(self) -> int:
        """Return more than anybody takes."""
        return ENDLESS

    def __getitem__(self, index: int) -> Tensor:
        """Make a sample."""
        return torch.full((4,), float(index % 10))


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    end = time.monotonic() + options.seconds
    for batch in DataLoader(Numbers(), 4, num_workers=options.workers):
        due = time.monotonic() + options.step_ms / 1e3
        optimizer.zero_grad()
        net(batch).sum().backward()
        optimizer.step()
        time.sleep(max(0.0, due - time.monotonic()))
        if due > end:
            break


if __name__ == "__main__":
    main()
