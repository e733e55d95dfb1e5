"""A recurrent network on texts that are split into words when they are asked for."""

import re
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTH = 24


class Sentences(Dataset[tuple[torch.Tensor, int]]):
    """Lines of a file, split and counted anew for each sample."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 6000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        line = self.path.read_text().splitlines()[index % 500]
        words = re.findall(r"[a-z]+", " ".join([line] * 20))
        numbers = [sum(map(ord, word)) % 1000 for word in words[:LENGTH]]
        return torch.tensor(numbers), index % 4


class Classifier(nn.Module):
    """An embedding, a recurrent layer, and a line of small layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 32)
        self.states = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Sequential(*[nn.Linear(32, 32) for _ in range(60)], nn.Linear(32, 4))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return a score for each class."""
        return self.head(self.states(self.words(numbers))[0][:, -1])


def main() -> None:
    """Train for an epoch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, foreach=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.txt"
        path.write_text("\n".join(f"the {n} quick brown foxes jump over dogs" for n in range(500)))
        for numbers, classes in DataLoader(Sentences(path), batch_size=16):
            loss = nn.functional.cross_entropy(model(numbers.to(DEVICE)), classes.to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not loss.isfinite():
                break


if __name__ == "__main__":
    main()
