"""A variational autoencoder of sensor readings that lie in memory as one tensor."""

import argparse

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

cli = argparse.ArgumentParser()
cli.add_argument("--epochs", type=int, default=14)
epochs = cli.parse_args().epochs

torch.manual_seed(13)
READINGS, SENSORS, BATCH = 65_536, 128, 2048
factors = torch.randn(READINGS, 8)
data = torch.tanh(factors @ torch.randn(8, SENSORS)) + 0.05 * torch.randn(READINGS, SENSORS)

encoder = nn.Sequential(nn.Linear(SENSORS, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU())
mean, spread = nn.Linear(256, 8), nn.Linear(256, 8)
decoder = nn.Sequential(
    nn.Linear(8, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, SENSORS)
)
parts = nn.ModuleList([encoder, mean, spread, decoder])
optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3, fused=True)
prior = Normal(torch.zeros(8), torch.ones(8), validate_args=False)

for epoch in range(epochs):
    kept = []
    for rows in torch.randperm(READINGS).split(BATCH):
        x = data[rows]
        h = encoder(x)
        posterior = Normal(mean(h), nn.functional.softplus(spread(h)) + 1e-4, validate_args=False)
        z = posterior.rsample()
        missed = (decoder(z) - x).square().sum(1)
        loss = (missed + 0.1 * kl_divergence(posterior, prior).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())
    print(f"{epoch:2d} {torch.stack(kept).mean():.3f}")
