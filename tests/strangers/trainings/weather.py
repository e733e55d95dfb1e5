"""Forecast tomorrow's weather on a grid from the last days, with a convolutional LSTM."""

import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DAYS, GRID, PAST = 3650, 16, 5


def write_decades(folder, count=4):
    rng = np.random.default_rng(11)
    names = []
    for number in range(count):
        name = os.path.join(folder, f"decade{number}.npy")
        field = rng.standard_normal((DAYS, 2, GRID, GRID), dtype=np.float32)
        np.save(name, field)
        names.append(name)
    return names


class Decades(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names) * (DAYS - PAST - 1)

    def __getitem__(self, i):
        which, day = divmod(i, DAYS - PAST - 1)
        data = np.load(self.names[which])
        past = torch.from_numpy(data[day : day + PAST].copy())
        tomorrow = torch.from_numpy(data[day + PAST].copy())
        return past, tomorrow


class ConvLSTM(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(channels + hidden, 4 * hidden, 3, padding=1)
        self.out = nn.Conv2d(hidden, channels, 1)

    def forward(self, past):
        b, _, _, height, width = past.shape
        h = past.new_zeros(b, self.hidden, height, width)
        c = torch.zeros_like(h)
        for t in range(past.shape[1]):
            i, f, o, g = self.gates(torch.cat([past[:, t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return past[:, -1] + self.out(h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        loader = DataLoader(Decades(write_decades(folder)), batch_size=8, shuffle=True)
        net = ConvLSTM(2, 16)
        optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
        warm_up = torch.optim.lr_scheduler.LambdaLR(optim, lambda n: min(1.0, (n + 1) / 100))
        step = 0
        while step < args.steps:
            for past, tomorrow in loader:
                loss = F.mse_loss(net(past), tomorrow)
                optim.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optim.step()
                warm_up.step()
                step += 1
                if step % 100 == 0:
                    print(f"{step}: {loss.item():.3f}")
                if step >= args.steps:
                    break


main()
