"""Teach a small mixer what a large one says, batch by batch."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Mixer(nn.Module):
    def __init__(self, wide, depth, patches=16, patch=48, classes=20):
        super().__init__()
        self.embed = nn.Linear(patch, wide)
        self.norms = nn.ModuleList(nn.LayerNorm(wide) for _ in range(2 * depth))
        self.tokens = nn.ModuleList(
            nn.Sequential(nn.Linear(patches, 32), nn.GELU(), nn.Linear(32, patches))
            for _ in range(depth)
        )
        self.channels = nn.ModuleList(
            nn.Sequential(nn.Linear(wide, 2 * wide), nn.GELU(), nn.Linear(2 * wide, wide))
            for _ in range(depth)
        )
        self.head = nn.Linear(wide, classes)

    def forward(self, x):
        x = self.embed(x)
        for at, (tokens, channels) in enumerate(zip(self.tokens, self.channels)):
            x = x + tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * at + 1](x))
        return self.head(x.mean(1))


class Distiller:
    temperature = 3.0

    def __init__(self, batch):
        torch.manual_seed(8)
        self.teacher, self.student = Mixer(160, 6), Mixer(48, 2)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-3, weight_decay=0.05)
        self.inputs = torch.randn(4096, 16, 48)
        self.labels = torch.randint(20, (4096,))
        self.batch = batch

    def batches(self):
        while True:
            for rows in torch.randperm(len(self.inputs)).split(self.batch):
                yield self.inputs[rows], self.labels[rows]

    def step(self, inputs, labels):
        soft = F.softmax(self.teacher(inputs) / self.temperature, dim=-1)
        said = self.student(inputs)
        told = F.kl_div(F.log_softmax(said / self.temperature, -1), soft, reduction="batchmean")
        loss = 0.3 * F.cross_entropy(said, labels) + 0.7 * self.temperature**2 * told
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    distiller = Distiller(options.batch)
    losses = []
    for number, (inputs, labels) in enumerate(distiller.batches()):
        losses.append(distiller.step(inputs, labels))
        if number + 1 == options.steps:
            break
    print(f"last hundred: {torch.stack(losses[-100:]).mean():.4f}")
