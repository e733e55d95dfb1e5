"""When will a machine fail? Hazards month by month; wards have vectors with their own optimizer."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

MONTHS, WARDS, SIGNS = 24, 20_000, 40


class Hazard(nn.Module):
    def __init__(self, wide=384):
        super().__init__()
        self.ward = nn.Embedding(WARDS, 24, sparse=True)
        self.body = nn.Sequential(
            nn.Linear(SIGNS + 24, wide),
            nn.SELU(),
            nn.Linear(wide, wide),
            nn.SELU(),
            nn.Linear(wide, wide),
            nn.SELU(),
            nn.Linear(wide, MONTHS),
        )

    def forward(self, signs, ward):
        return self.body(torch.cat([signs, self.ward(ward)], 1))


class Machines:
    def __init__(self, count=50_000):
        self.signs = torch.randn(count, SIGNS)
        self.ward = torch.randint(WARDS, (count,))
        risk = (self.signs[:, :6].sum(1) / 3 - 2).sigmoid().clamp(min=1e-3)
        month = (torch.rand(count).log() / torch.log1p(-risk)).long()
        left = torch.randint(6, 40, (count,))
        self.failed = (month <= left) & (month < MONTHS)
        self.month = torch.minimum(month, left).clamp(max=MONTHS - 1)

    def batches(self, size):
        while True:
            for rows in torch.randperm(len(self.ward)).split(size):
                yield self.signs[rows], self.ward[rows], self.month[rows], self.failed[rows]


def likelihood(logits, month, failed):
    """Each month lived through counts, and the one of the failure if it was seen."""
    months = torch.arange(MONTHS)
    lived = months < month[:, None]
    fell = (months == month[:, None]) & failed[:, None]
    return (F.softplus(logits) * (lived | fell) - logits * fell).sum(1).mean()


class Trainer:
    report_every = 50

    def __init__(self, machines, model):
        self.machines, self.model = machines, model
        self.optimizers = [
            torch.optim.SparseAdam(list(model.ward.parameters()), lr=1e-3),
            torch.optim.AdamW(model.body.parameters(), lr=5e-4, fused=True),
        ]
        self.done, self.sum = 0, torch.zeros(())

    def train(self, steps):
        for signs, ward, month, failed in self.machines.batches(512):
            loss = likelihood(self.model(signs, ward), month, failed)
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in self.optimizers:
                optimizer.step()
            self.report(loss.detach())
            if self.done == steps:
                break

    def report(self, loss):
        self.done += 1
        self.sum += loss
        if self.done % self.report_every == 0:
            print(f"{self.done:5d} {self.sum.item() / self.report_every:.6f}")
            self.sum.zero_()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    torch.manual_seed(30)
    Trainer(Machines(), Hazard()).train(arguments.steps)
