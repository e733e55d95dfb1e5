"""A training whose samples come from far away: a read waits, and needs no processor meanwhile."""

import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

READ_S = 0.002


class Remote(Dataset[tuple[Tensor, int]]):
    """Samples that take two milliseconds to arrive."""

    def __len__(self) -> int:
        """Return how many there are."""
        return 16_000

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Read a sample."""
        time.sleep(READ_S)
        return torch.full((64,), float(index % 10)), index % 10


def main() -> None:
    """Train for an epoch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Remote(), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for inputs, classes in loader:
        loss = nn.functional.cross_entropy(model(inputs), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
