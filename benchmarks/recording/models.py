"""Small models, data and the plain training step that the recorded cases share."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset


class Block(nn.Module):
    """A transformer block of plain modules."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens after attention and the feed-forward layers."""
        normal = self.first(tokens)
        tokens = tokens + self.attend(normal, normal, normal, need_weights=False)[0]
        return tokens + self.feed(self.second(tokens))


class Transformer(nn.Module):
    """A stack of blocks with a head; ``saving`` recomputes activations in the backward pass."""

    def __init__(self, width: int, depth: int, *, saving: str = "no") -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 64)
        self.saving = saving

    def forward(self, tokens: Tensor) -> Tensor:
        """Return one row of logits a sequence."""
        for block in self.blocks:
            if self.saving == "no":
                tokens = block(tokens)
            else:
                tokens = checkpoint(block, tokens, use_reentrant=self.saving == "reentrant")
        return self.head(tokens.mean(dim=1))


def perceptron(width: int, depth: int) -> nn.Sequential:
    """Make a stack of small linear layers, each with a norm and an activation."""
    layers = [
        module
        for _ in range(depth)
        for module in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())
    ]
    return nn.Sequential(*layers, nn.Linear(width, 64))


def convnet() -> nn.Sequential:
    """Make a small convolutional classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 64),
    )


def learn(
    model: Callable[[Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    labels: Tensor,
) -> Tensor:
    """Do one plain training step and give its loss (still on the device)."""
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def tokens_for(device: torch.device, *, large: bool = False) -> tuple[int, Tensor, Tensor]:
    """Return a width, a batch of token vectors and its labels (tiny ones on a CPU)."""
    batch, length, width = (16, 512, 1024) if large else (8, 128, 256)
    if device.type == "cpu":
        batch, length, width = 2, 16, 32
    tokens = torch.randn(batch, length, width, device=device)
    return width, tokens, torch.randint(0, 64, (batch,), device=device)


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures that take about a millisecond of a processor each."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __len__(self) -> int:
        """Count the pictures."""
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Make a picture from noise, slowly."""
        picture = torch.rand(3, self.side, self.side)
        for _ in range(6):
            picture = (picture * 1.01).sin()
        return picture, index % 64


def batches_of(loader: DataLoader[tuple[Tensor, int]]) -> Iterator[list[Tensor]]:
    """Return batches without end."""
    while True:
        yield from loader
