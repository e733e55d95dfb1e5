"""A store that answers late, read in the training itself; hundreds of tensors, updated singly."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Store(Dataset[tuple[torch.Tensor, int]]):
    """Samples that are fetched over a network: four milliseconds each."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.004)
        return torch.full((64,), float(index % 7)), index % 7


def main() -> None:
    """Train for an epoch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(120)], nn.Linear(64, 7)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, foreach=False)
    for inputs, classes in DataLoader(Store(), batch_size=8):
        loss = nn.functional.cross_entropy(model(inputs.to(DEVICE)), classes.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
