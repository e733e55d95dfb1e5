"""Epochs of few batches, for each of which workers are started anew; an optimizer by hand."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Few(Dataset[tuple[torch.Tensor, int]]):
    """Few samples, which take a while each."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)
        return torch.full((64,), float(index % 5)), index % 5


def main() -> None:
    """Train for sixty epochs of twelve steps."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(80)], nn.Linear(64, 5)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, foreach=False)
    loader = DataLoader(Few(), batch_size=8, num_workers=1)
    for _ in range(60):
        for inputs, classes in loader:
            loss = nn.functional.cross_entropy(model(inputs.to(DEVICE)), classes.to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
