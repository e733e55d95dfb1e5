"""A training of many equal steps, on one thread: what it takes is its own."""

import torch
from torch import nn


def main() -> None:
    """Train until somebody ends it."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *[layer for _ in range(8) for layer in (nn.Linear(128, 128), nn.GELU())],
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs, classes = torch.randn(64, 128), torch.randint(0, 10, (64,))
    while True:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
