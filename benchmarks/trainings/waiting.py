"""A training whose steps mostly wait, so that their length is steady where processors are shared.

``STEP_WAIT_MS`` says how long.
"""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train, until somebody ends it."""
    wait_s = float(os.environ.get("STEP_WAIT_MS", "8")) / 1e3
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(4096, 16), torch.randint(0, 4, (4096,)))
    for _ in range(10_000):
        for inputs, classes in DataLoader(data, 8, shuffle=True, num_workers=0):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs), classes).backward()
            time.sleep(wait_s)
            optimizer.step()


if __name__ == "__main__":
    main()
