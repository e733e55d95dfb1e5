"""Work that ranks share unevenly: sequences of one are longer, or most rows go to its expert."""
# pyright: basic

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn import functional as collectives
from torch.nn.parallel import DistributedDataParallel


class Experts(nn.Module):
    """An expert on each rank; a share of all rows goes to that of the last, the rest to others."""

    def __init__(self, wide: int, last_share: float) -> None:
        super().__init__()
        self.last_share = last_share
        self.expert = nn.Sequential(
            nn.Linear(wide, 4 * wide), nn.ReLU(), nn.Linear(4 * wide, wide), nn.ReLU()
        )

    def forward(self, rows: Tensor) -> Tensor:
        world, rank = distributed.get_world_size(), distributed.get_rank()
        n_last = round(self.last_share * len(rows))
        sent = [(len(rows) - n_last) // max(1, world - 1)] * (world - 1)
        sent.append(len(rows) - sum(sent))
        received = [sent[rank]] * world
        theirs = exchange(rows, received, sent)
        return exchange(self.expert(theirs), sent, received)


def exchange(rows: Tensor, received: list[int], sent: list[int]) -> Tensor:
    output = rows.new_empty(sum(received), rows.shape[1])
    return collectives.all_to_all_single(output, rows.contiguous(), received, sent)


def keep_experts(model: nn.Module) -> None:
    """Let experts be the rank's own: their gradients are not averaged."""
    names = [name for name, _ in model.named_parameters() if ".expert." in name]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)  # noqa: SLF001


class Sequences(nn.Module):
    """Layers for each time step of sequences, and the mean of what they give."""

    def __init__(self, layers: nn.Module, length: int) -> None:
        super().__init__()
        self.layers, self.length = layers, length

    def forward(self, rows: Tensor) -> Any:
        steps = torch.arange(1, self.length + 1, device=rows.device)
        return self.layers(rows[:, None] / steps[:, None]).mean(1)
