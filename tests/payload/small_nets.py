"""A network of images, and a step of its training."""

from __future__ import annotations

import torch
from torch import nn


class Net(nn.Module):
    """Remembers what its forward was given."""

    def __init__(self, *, wide: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, wide, 3, padding=1)
        self.last = nn.Linear(wide, 2)
        self.inputs: torch.Tensor | None = None
        self.computed: torch.Tensor | None = None

    def forward(self, images: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        features = self.first(images)
        if not torch.compiler.is_compiling():
            self.inputs, self.computed = images, features
        logits = self.last(features.mean((2, 3))) * scale
        return {"logits": logits, "classes": logits.argmax(1)}


def images() -> torch.Tensor:
    return torch.randn(4, 3, 6, 6)


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> float:
    loss = model(batch)["logits"].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
