"""Solve Burgers' equation with a network that knows its physics."""

import argparse
import math

import torch
from torch import nn
from torch.autograd import grad


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


def network(wide, depth):
    layers = [nn.Linear(2, wide), Sine()]
    for _ in range(depth - 1):
        layers += [nn.Linear(wide, wide), Sine()]
    return nn.Sequential(*layers, nn.Linear(wide, 1))


class Burgers:
    viscosity = 0.01 / math.pi

    def __init__(self, inside, border):
        self.inside, self.border = inside, border

    def residual(self, u_of):
        points = torch.rand(self.inside, 2) * torch.tensor([1.0, 2.0]) - torch.tensor([0.0, 1.0])
        points.requires_grad_()
        u = u_of(points)
        first = grad(u.sum(), points, create_graph=True)[0]
        second = grad(first[:, 1].sum(), points, create_graph=True)[0][:, 1]
        return first[:, 0] + u.squeeze(1) * first[:, 1] - self.viscosity * second

    def start(self, u_of):
        x = torch.rand(self.border, 1) * 2 - 1
        return u_of(torch.cat([torch.zeros_like(x), x], 1)) + torch.sin(math.pi * x)

    def walls(self, u_of):
        t = torch.rand(self.border, 1)
        side = torch.randint(2, t.shape).float() * 2 - 1
        return u_of(torch.cat([t, side], 1))


def solve(iterations):
    torch.manual_seed(14)
    u_of, equation = network(96, 4), Burgers(2000, 200)
    optimizer = torch.optim.Adam(u_of.parameters(), lr=1e-3, fused=True)
    for iteration in range(iterations):
        loss = sum(
            part(u_of).square().mean()
            for part in (equation.residual, equation.start, equation.walls)
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if iteration % 100 == 0:
            print(f"{iteration:6d} {loss.item():.2e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=400)
    solve(parser.parse_args().iterations)
