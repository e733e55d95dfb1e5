"""Train a small residual network on made-up pictures, as anybody would; knows no recorder.

``python small_resnet.py --steps 300 [--cpu] [--workers 2] [--wide 64]``
"""

import argparse
import json
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures of noise, each the same whenever it is asked for."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, 32, 32, generator=generator), index % 10


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1, bias=False),
            nn.BatchNorm2d(wide),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


def network(wide: int, deep: int) -> nn.Module:
    """Return a network of ``deep`` residual blocks."""
    blocks = [Block(wide) for _ in range(deep)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 10)]
    return nn.Sequential(nn.Conv2d(3, wide, 3, padding=1), *blocks, *head)


def main() -> None:
    """Train, and print the last loss and the wall time of the loop as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--wide", type=int, default=64)
    parser.add_argument("--deep", type=int, default=16)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cpu" if options.cpu else "cuda")
    model = network(options.wide, options.deep).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(
        Pictures(64 * options.steps),
        batch_size=64,
        num_workers=options.workers,
        pin_memory=device.type == "cuda",
    )
    begun, loss = time.perf_counter(), torch.zeros(())
    for pictures, labels in loader:
        optimizer.zero_grad()
        output = model(pictures.to(device, non_blocking=True))
        loss = nn.functional.cross_entropy(output, labels.to(device, non_blocking=True))
        loss.backward()
        optimizer.step()
    print(json.dumps({"loss": loss.item(), "wall_s": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
