"""Two networks against each other: one draws rings, one tells drawn from real."""

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import nn


def draw_rings(count, side, generator):
    at = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(at, at, indexing="ij")
    radius = 0.3 + 0.5 * torch.rand(count, 1, 1, generator=generator)
    ring = torch.exp(-80 * ((x**2 + y**2).sqrt()[None] - radius) ** 2)
    return (ring * 2 - 1).unsqueeze(1)


def conv(into, out, up):
    layer = nn.ConvTranspose2d if up else nn.Conv2d
    return layer(into, out, 4, 2, 1, bias=False)


class Generator(nn.Module):
    def __init__(self, noise=32, wide=32):
        super().__init__()
        self.wide = wide
        self.start = nn.Linear(noise, 4 * wide * 16)
        self.layers = nn.Sequential(
            nn.BatchNorm2d(4 * wide),
            nn.ReLU(),
            conv(4 * wide, 2 * wide, up=True),
            nn.BatchNorm2d(2 * wide),
            nn.ReLU(),
            conv(2 * wide, 1, up=True),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.layers(self.start(z).view(len(z), 4 * self.wide, 4, 4))


class Critic(nn.Module):
    def __init__(self, wide=32):
        super().__init__()
        self.layers = nn.Sequential(
            conv(1, wide, up=False),
            nn.LeakyReLU(0.2),
            conv(wide, 2 * wide, up=False),
            nn.BatchNorm2d(2 * wide),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(2 * wide * 16, 1),
        )

    def forward(self, x):
        return self.layers(x).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=300)
    args = ap.parse_args()
    torch.manual_seed(15)
    gen = torch.Generator().manual_seed(15)
    real = draw_rings(2048, 16, gen)
    G, D = Generator(), Critic()
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    for n in range(args.rounds):
        x = real[torch.randint(len(real), (64,), generator=gen)]
        fake = G(torch.randn(64, 32))

        yes, no = D(x), D(fake.detach())
        loss_d = F.softplus(-yes).mean() + F.softplus(no).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        loss_g = F.softplus(-D(fake)).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        print(
            f"[{n}] D {loss_d.item():.4f} G {loss_g.item():.4f} "
            f"D(x) {torch.sigmoid(yes).mean().item():.3f} D(G(z)) {torch.sigmoid(no).mean().item():.3f}",
            file=sys.stderr if n % 100 == 0 else open_nowhere,
        )


if __name__ == "__main__":
    with open("/dev/null", "w") as open_nowhere:
        main()
