"""Train on arrays in files of their own, as instruments write them; it makes them first."""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Arrays(Dataset[tuple[np.ndarray, np.float32]]):
    """Files of NumPy's, each brought to one mean and deviation."""

    def __init__(self, root: Path) -> None:
        self.files = sorted(root.glob("*.npy"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.float32]:
        x = np.load(self.files[index]).astype(np.float32)
        x = (x - x.mean()) / (x.std() + 1e-6)
        return x, np.float32(x[0, 0, 0])


def make_arrays(root: Path, count: int = 600) -> None:
    """Write the files, once."""
    root.mkdir()
    draw = np.random.default_rng(0)
    for number in range(count):
        values = draw.integers(0, 4000, (4, 128, 128)).astype(np.int16)
        np.save(root / f"{number}.npy", values)


def main() -> None:
    """Train for a number of epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("arrays"))
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    if not options.data.exists():
        make_arrays(options.data)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Arrays(options.data), batch_size=16, shuffle=True, num_workers=2)
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, 4, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(options.epochs):
        total = 0.0
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs)[:, 0], targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.3f}", flush=True)


if __name__ == "__main__":
    main()
