"""Which field is a paper of? Labels spread over a graph of who cites whom."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def papers(count=1500, fields=6, words=300):
    gen = torch.Generator().manual_seed(27)
    field = torch.randint(fields, (count,), generator=gen)
    same = field[:, None] == field[None]
    chance = torch.where(same, 0.012, 0.0015)
    cites = (torch.rand(count, count, generator=gen) < chance).triu(1)
    adjacency = (cites | cites.T).float()
    topic = torch.randn(fields, words, generator=gen)
    text = (0.15 * topic[field] + torch.randn(count, words, generator=gen)).relu()
    known = torch.rand(count, generator=gen) < 0.3
    return adjacency, text, field, known


class Spread(nn.Module):
    """One layer: what the neighbours know, weighted by how many they are."""

    def __init__(self, into, out):
        super().__init__()
        self.linear = nn.Linear(into, out, bias=False)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x, adjacency):
        with_self = adjacency + torch.eye(len(adjacency))
        root = with_self.sum(1).pow(-0.5)
        norm = root[:, None] * with_self * root[None]
        return norm @ self.linear(x) + self.bias


class Network(nn.Module):
    def __init__(self, words, fields, wide=64):
        super().__init__()
        self.layers = nn.ModuleList([Spread(words, wide), Spread(wide, wide), Spread(wide, fields)])

    def forward(self, x, adjacency):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, adjacency))
        return self.layers[-1](x, adjacency)


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--epochs", type=int, default=300)
    args = cli.parse_args()
    torch.manual_seed(27)
    adjacency, text, field, known = papers()
    model = Network(text.shape[1], 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        out = model(text, adjacency)
        loss = F.cross_entropy(out[known], field[known])
        loss.backward()
        optimizer.step()
        if epoch % 50 == 49:
            right = (out.argmax(1) == field)[~known].float().mean()
            print(f"epoch {epoch + 1:03d} loss {loss.item():.5f} unseen {right.item():.3f}")


if __name__ == "__main__":
    main()
