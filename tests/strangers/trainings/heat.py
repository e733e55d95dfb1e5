"""A neural operator that says how heat spreads on a ring: spectral layers, one for each depth."""

import argparse

import torch
from torch import nn


class Spectral(nn.Module):
    def __init__(self, wide, modes):
        super().__init__()
        self.modes = modes
        start = torch.randn(modes, wide, wide, 2) / wide
        self.weight = nn.Parameter(start)

    def forward(self, x):
        low = torch.fft.rfft(x)[..., : self.modes]
        mixed = torch.einsum("bim,mio->bom", low, torch.view_as_complex(self.weight))
        return torch.fft.irfft(mixed, n=x.shape[-1])


class Operator(nn.Module):
    def __init__(self, wide=48, modes=16, depth=4):
        super().__init__()
        self.lift = nn.Conv1d(2, wide, 1)
        self.spectral = nn.ModuleList(Spectral(wide, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv1d(wide, wide, 1) for _ in range(depth))
        self.lower = nn.Sequential(nn.Conv1d(wide, 96, 1), nn.GELU(), nn.Conv1d(96, 1, 1))

    def forward(self, x):
        x = self.lift(x)
        for far, near in zip(self.spectral, self.local):
            x = x + nn.functional.gelu(far(x) + near(x))
        return self.lower(x).squeeze(1)


def pairs(count, points, gen):
    """Random temperatures, how well the ring conducts, and what is there a little later."""
    wave = torch.fft.rfftfreq(points, 1 / points)
    shape = torch.randn(count, len(wave), dtype=torch.cfloat, generator=gen) / (1 + wave) ** 1.5
    speed = 0.001 + 0.01 * torch.rand(count, 1, generator=gen)
    before = torch.fft.irfft(shape, n=points) * points**0.5
    after = torch.fft.irfft(shape * torch.exp(-speed * wave**2), n=points) * points**0.5
    return torch.stack([before, (100 * speed).expand(-1, points)], 1), after


def relative(guess, truth):
    return ((guess - truth).norm(dim=1) / truth.norm(dim=1)).mean()


@torch.no_grad()
def error(model, inputs, truth):
    return relative(model(inputs), truth).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(29)
    gen = torch.Generator().manual_seed(29)
    inputs, truth = pairs(2048, 256, gen)
    kept_inputs, kept_truth = pairs(32, 256, gen)
    model = Operator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 400, 0.5)
    for step in range(args.steps):
        rows = torch.randint(len(inputs), (32,), generator=gen)
        loss = relative(model(inputs[rows]), truth[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"{step + 1}: {loss.item():.5f}, unseen {error(model, kept_inputs, kept_truth):.5f}")


if __name__ == "__main__":
    main()
