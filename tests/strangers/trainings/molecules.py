"""Predict an energy of small molecules by message passing between near atoms."""

import argparse
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    molecules: int = 2000
    hidden: int = 64
    rounds: int = 3
    batch_size: int = 24
    cutoff: float = 2.2
    lr: float = 5e-4


class Molecules(Dataset):
    """Atoms at random places in a box; who is near whom follows from where they are."""

    def __init__(self, config):
        rng = random.Random(3)
        self.cutoff = config.cutoff
        self.kinds, self.places, self.energies = [], [], []
        for _ in range(config.molecules):
            n = rng.randint(12, 28)
            self.kinds.append([rng.randrange(5) for _ in range(n)])
            self.places.append([[rng.uniform(0, 5) for _ in range(3)] for _ in range(n)])
            self.energies.append(rng.gauss(0, 1))

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        places = self.places[i]
        source, target, distance = [], [], []
        for a, p in enumerate(places):
            for b, q in enumerate(places):
                if a == b:
                    continue
                d = ((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 + (p[2] - q[2]) ** 2) ** 0.5
                if d < self.cutoff:
                    source.append(a)
                    target.append(b)
                    distance.append(d)
        edges = torch.tensor([source, target], dtype=torch.long)
        return torch.tensor(self.kinds[i]), edges, torch.tensor(distance), self.energies[i]


def join(molecules):
    """Make one big graph of many small ones."""
    kinds, edges, distances, owner, energies = [], [], [], [], []
    offset = 0
    for number, (kind, edge, distance, energy) in enumerate(molecules):
        kinds.append(kind)
        edges.append(edge + offset)
        distances.append(distance)
        owner.append(torch.full((len(kind),), number))
        energies.append(energy)
        offset += len(kind)
    return (
        torch.cat(kinds),
        torch.cat(edges, dim=1),
        torch.cat(distances),
        torch.cat(owner),
        torch.tensor(energies),
    )


class Round(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * hidden + 16, hidden), nn.SiLU())
        self.update = nn.GRUCell(hidden, hidden)

    def forward(self, h, edges, radial):
        source, target = edges
        m = self.message(torch.cat([h[source], h[target], radial], dim=1))
        return self.update(torch.zeros_like(h).index_add_(0, target, m), h)


class Energy(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(5, config.hidden)
        self.rounds = nn.ModuleList(Round(config.hidden) for _ in range(config.rounds))
        self.read = nn.Sequential(nn.Linear(config.hidden, 32), nn.SiLU(), nn.Linear(32, 1))
        self.register_buffer("centres", torch.linspace(0, config.cutoff, 16))

    def forward(self, kinds, edges, distances, owner, count):
        radial = torch.exp(-4 * (distances[:, None] - self.centres) ** 2)
        h = self.embed(kinds)
        for one in self.rounds:
            h = one(h, edges, radial)
        each = self.read(h).squeeze(1)
        return torch.zeros(count).index_add_(0, owner, each)


class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = Energy(config)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr)
        self.loader = DataLoader(
            Molecules(config), batch_size=config.batch_size, shuffle=True, collate_fn=join
        )

    def epoch(self):
        total = 0.0
        for kinds, edges, distances, owner, energies in self.loader:
            guess = self.model(kinds, edges, distances, owner, len(energies))
            loss = nn.functional.huber_loss(guess, energies)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return float(total) / len(self.loader)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(Config())
    for epoch in range(args.epochs):
        print(f"epoch {epoch}: {trainer.epoch():.4f}")
