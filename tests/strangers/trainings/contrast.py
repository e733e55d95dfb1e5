"""Representations without labels: two views of a picture are to be alike (SimCLR, small)."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

log = logging.getLogger("contrast")


class Blocks(Sampler):
    """Whole batches of rows; small and large pictures never meet in one."""

    def __init__(self, groups, size, seed):
        self.groups, self.size = groups, size
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return sum(len(group) // self.size for group in self.groups)

    def __iter__(self):
        while True:
            group = self.groups[int(torch.randint(len(self.groups), (1,), generator=self.gen))]
            yield group[torch.randint(len(group), (self.size,), generator=self.gen)]


class Rows(TensorDataset):
    def __init__(self, pictures):
        super().__init__(pictures)


def views(pictures, gen):
    """Flip, shift, tint and blur noise: for the whole batch at once."""
    if torch.rand((), generator=gen) < 0.5:
        pictures = pictures.flip(3)
    dy, dx = torch.randint(-4, 5, (2,), generator=gen).tolist()
    tint = 0.8 + 0.4 * torch.rand(len(pictures), 3, 1, 1, generator=gen)
    moved = pictures.roll((dy, dx), (2, 3)) * tint
    return moved + 0.05 * torch.randn(moved.shape, generator=gen)


def encoder():
    layers, into = [], 3
    for out in (32, 64, 96):
        layers += [nn.Conv2d(into, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        into = out
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 96), nn.ReLU(), nn.Linear(96, 64)]
    return nn.Sequential(*layers, *tail)


def alike(a, b, temperature=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    scores = z @ z.T / temperature
    scores.fill_diagonal_(-1e4)
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(scores, partner)


def main(steps, accumulate=2):
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(31)
    pictures = torch.rand(4096, 3, 32, 32, generator=gen)
    rows = torch.arange(len(pictures))
    sampler = Blocks([rows[:1500], rows[1500:]], 48, seed=31)
    loader = DataLoader(Rows(pictures), batch_size=None, sampler=sampler)
    net = encoder()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    pending, step = accumulate, 0
    for (batch,) in loader:
        both = net(torch.cat([views(batch, gen), views(batch, gen)]))
        loss = alike(*both.chunk(2))
        (loss / accumulate).backward()
        pending -= 1
        if pending:
            continue
        optimizer.step()
        optimizer.zero_grad()
        pending, step = accumulate, step + 1
        if step % 10 == 0:
            log.info("step %d loss %.5f", step, loss.item())
        if step == steps:
            break


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=200)
    main(cli.parse_args().steps)
