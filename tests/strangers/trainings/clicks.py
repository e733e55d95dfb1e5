"""Will somebody click? Columns of numbers and of kinds, by their names."""

import argparse

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler  # noqa: F401

KINDS = {f"kind_{n}": 10 * (n + 1) for n in range(14)}
NUMBERS = [f"number_{n}" for n in range(16)]


class Impressions(Dataset):
    def __init__(self, rows=60_000):
        gen = torch.Generator().manual_seed(24)
        self.columns = {
            name: torch.randint(size, (rows,), generator=gen) for name, size in KINDS.items()
        }
        for name in NUMBERS:
            self.columns[name] = torch.randn(rows, generator=gen)
        lean = self.columns["number_0"] + 0.05 * self.columns["kind_9"] - 2
        self.columns["clicked"] = (lean + torch.randn(rows, generator=gen) > 0).float()

    def __len__(self):
        return len(self.columns["clicked"])

    def __getitem__(self, row):
        return {name: column[row] for name, column in self.columns.items()}


class Crossed(nn.Module):
    """Deep layers next to a cross of everything with everything."""

    def __init__(self, wide=12, hidden=512):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, wide) for name, size in KINDS.items()})
        size = wide * len(KINDS) + len(NUMBERS)
        self.norm = nn.BatchNorm1d(size)
        self.crosses = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.deep = nn.Sequential(
            nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.out = nn.Linear(size + hidden, 1)

    def forward(self, row):
        parts = [table(row[name]) for name, table in self.tables.items()]
        numbers = torch.stack([row[name] for name in NUMBERS], 1)
        x = first = self.norm(torch.cat([*parts, numbers], 1))
        for cross in self.crosses:
            x = first * cross(x) + x
        return self.out(torch.cat([x, self.deep(first)], 1)).squeeze(1)


class Task:
    """What to train, apart from how the loop goes."""

    def __init__(self):
        self.model = Crossed()
        self.criterion = nn.BCEWithLogitsLoss()

    def loader(self):
        return DataLoader(Impressions(), batch_size=256, shuffle=True, drop_last=True)

    def training_step(self, batch):
        return self.criterion(self.model(batch), batch["clicked"])

    def configure(self):
        return torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)


def fit(task, steps):
    optimizer, done = task.configure(), 0
    loader = task.loader()
    while True:
        for batch in loader:
            optimizer.zero_grad()
            loss = task.training_step(batch)
            loss.backward()
            optimizer.step()
            done += 1
            if done % 50 == 0:
                print(done, f"{loss.item():.5f}")
            if done >= steps:
                return


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=350)
    arguments = parser.parse_args()
    torch.manual_seed(24)
    fit(Task(), arguments.steps)
