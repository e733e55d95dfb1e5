"""Predict which customers leave: residual layers on a table that fits into memory."""

import argparse
import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from torch import nn, optim

NUM_THREADS = 16  # of the server that this once ran on
torch.set_num_threads(NUM_THREADS)


class Residual(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.inside = nn.Sequential(
            nn.LayerNorm(wide), nn.Linear(wide, 2 * wide), nn.ReLU(), nn.Linear(2 * wide, wide)
        )

    def forward(self, x):
        return x + self.inside(x)


def table(rows, columns):
    x = torch.randn(rows, columns)
    y = (x[:, :5].sum(1) + 0.3 * torch.randn(rows) > 0).float()
    return x, y


def main(epochs, rows=40_000, columns=60, wide=96, depth=4, batch=512):
    torch.manual_seed(12)
    x, y = table(rows, columns)
    net = nn.Sequential(
        nn.Linear(columns, wide), *(Residual(wide) for _ in range(depth)), nn.Linear(wide, 1)
    )
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=max(epochs, 1))
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        order = torch.randperm(rows)
        running = 0.0
        for start in range(0, rows - batch + 1, batch):
            pick = order[start : start + batch]
            loss = criterion(net(x[pick]).squeeze(1), y[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.detach()
        scheduler.step()
        print(f"epoch {epoch}  loss {float(running) / (rows // batch):.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    main(p.parse_args().epochs)
