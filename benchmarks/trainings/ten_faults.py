"""A residual network on small pictures, with ten habits that cost time; knows no recorder."""

import argparse
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures of grain, made once and kept in memory."""

    def __init__(self, count: int, size: int) -> None:
        self.pixels = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8)

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pixels[index % len(self.pixels)] / 255, index % 10


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


def main() -> None:
    """Train until somebody ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--wide", type=int, default=256)
    parser.add_argument("--deep", type=int, default=4)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device(options.device)
    stem = nn.Conv2d(3, options.wide, 3, stride=2, padding=1)
    blocks = [Block(options.wide) for _ in range(options.deep)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(options.wide, 10)]
    model = nn.Sequential(stem, *blocks, *head).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    loader = DataLoader(
        Pictures(512, options.size), batch_size=options.batch, num_workers=options.workers
    )
    history: list[dict[str, Any]] = [{"number": number} for number in range(20_000)]
    steps = itertools.count(1)
    while True:
        for pictures, labels in loader:
            output = model(pictures.to(device))
            loss = nn.functional.cross_entropy(output, labels.to(device))
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            optimizer.step()
            history.extend({"loss": loss.detach(), "kept": [part]} for part in range(300))
            del history[:300]
            if device.type == "cuda":
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
            print(f"step {next(steps)}: loss {loss.item():.4f}, {output.softmax(1).max():.3f}")


if __name__ == "__main__":
    main()
