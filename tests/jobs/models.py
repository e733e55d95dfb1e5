"""Models of other kinds than layers one after the other, and what trainings do beside them."""
# pyright: basic

import math

from torch import Tensor, distributed, nn

_CHANNELS = 16


class Attention(nn.Module):
    """Rows as sentences of words that look at one another."""

    def __init__(self, wide: int, layers: int) -> None:
        super().__init__()
        self.word = nn.Unflatten(1, (wide // 32, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(32, 16)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(self.layers(self.word(rows)).mean(1))


class Images(nn.Sequential):
    """Rows as small grey images."""

    def __init__(self, wide: int, layers: int) -> None:
        body: list[nn.Module] = [nn.Unflatten(1, (1, 16, wide // 16))]
        for number in range(layers):
            body.append(nn.Conv2d(_CHANNELS if number else 1, _CHANNELS, 3, padding=1))
            body += [nn.BatchNorm2d(_CHANNELS), nn.ReLU()]
        super().__init__(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_CHANNELS, 16))


MODELS = {"attention": Attention, "images": Images}


def clip_gradients(model: nn.Module) -> None:
    """Bound the norm of all ranks' gradients, asked for parameter by parameter."""
    gradients = [row.grad for row in model.parameters() if row.grad is not None]
    total = 0.0
    for gradient in gradients:
        square = gradient.square().sum()
        distributed.all_reduce(square)
        total += float(square)
    factor = min(1.0, 1.0 / (total**0.5 + 1e-6))
    for gradient in gradients:
        gradient.mul_(factor)


def score_batch(inputs: Tensor) -> float:
    """Score how far rows are apart, pair by pair."""
    rows = inputs.tolist()
    return sum(math.dist(left, right) for left in rows for right in rows) / len(rows) ** 2
