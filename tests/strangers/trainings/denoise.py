"""Diffusion of handwriting-like strokes: learn which noise was added, keep averaged weights."""

import argparse

import torch
from torch import nn

TIMES, POINTS = 200, 32


def strokes(count):
    """Curves of a few waves, as points one after another."""
    t = torch.linspace(0, 1, POINTS)
    waves = torch.randn(count, 2, 4)
    phase = torch.rand(count, 2, 4) * 6.28
    turns = torch.arange(1, 5)
    curve = (waves[..., None] * torch.sin(6.28 * turns[:, None] * t + phase[..., None])).sum(2)
    return (curve / curve.flatten(1).std(1)[:, None, None]).flatten(1)


class Block(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.norm = nn.LayerNorm(wide)
        self.up, self.down = nn.Linear(wide, 3 * wide), nn.Linear(3 * wide, wide)
        self.when = nn.Embedding(TIMES, wide)

    def forward(self, x, t):
        return x + self.down(nn.functional.silu(self.up(self.norm(x + self.when(t)))))


class Denoiser(nn.Module):
    def __init__(self, wide=256, depth=6):
        super().__init__()
        self.first = nn.Linear(2 * POINTS, wide)
        self.blocks = nn.ModuleList(Block(wide) for _ in range(depth))
        self.last = nn.Linear(wide, 2 * POINTS)

    def forward(self, x, t):
        x = self.first(x)
        for block in self.blocks:
            x = block(x, t)
        return self.last(x)


def clip(parameters, most):
    """Scale gradients down."""
    grads = torch.cat([p.grad.flatten() for p in parameters])
    norm = grads.square().sum().sqrt().item()
    for p in parameters:
        p.grad = p.grad * min(1.0, most / (norm + 1e-6))
    return norm


def update_average(average, model, decay):
    for name, value in model.state_dict().items():
        new = value.detach().clone()
        average[name] = decay * average[name] + (1 - decay) * new


def train(steps, batch=64, decays=(0.99, 0.999)):
    torch.manual_seed(25)
    data = strokes(8192)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.03, TIMES), 0)
    model = Denoiser()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=3e-4, fused=True)
    averages = [
        {name: value.clone() for name, value in model.state_dict().items()} for _ in decays
    ]
    for step in range(1, steps + 1):
        clean = data[torch.randint(len(data), (batch,))]
        t = torch.randint(TIMES, (batch,))
        noise = torch.randn_like(clean)
        a = kept[t][:, None]
        loss = (model(a.sqrt() * clean + (1 - a).sqrt() * noise, t) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        norm = clip(parameters, 1.0)
        optimizer.step()
        for average, decay in zip(averages, decays):
            update_average(average, model, decay)
        if step % 50 == 0:
            print(f"{step} loss {loss.item():.6f} norm {norm:.4f}")
    for decay, average in zip(decays, averages):
        print(f"{decay}: {sum(v.square().sum().item() for v in average.values()):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    train(parser.parse_args().steps)
