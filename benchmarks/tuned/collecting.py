"""A training that keeps small objects of each step, and makes its batches itself."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Signals(Dataset[tuple[torch.Tensor, int]]):
    """Noise, filtered when it is asked for."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        signal = np.random.default_rng(index).standard_normal(16_384)
        spectrum = np.abs(np.fft.rfft(signal))[:128]
        return torch.from_numpy(spectrum).float(), index % 3


def main() -> None:
    """Train for an epoch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    history: list[dict[str, object]] = []
    model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(40)], nn.Linear(128, 3)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9, foreach=False)
    for step, (inputs, classes) in enumerate(DataLoader(Signals(), batch_size=16)):
        loss = nn.functional.cross_entropy(model(inputs.to(DEVICE)), classes.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.extend({"step": step, "unit": [unit]} for unit in range(500))


if __name__ == "__main__":
    main()
