"""Forecast demand with a temporal convolution; the loop is a ``fit`` with callbacks."""

import argparse
import csv
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Chain(nn.Module):
    def __init__(self, channels=32, levels=4):
        super().__init__()
        self.first = nn.Conv1d(3, channels, 1)
        self.levels = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, dilation=2**n, padding=2**n) for n in range(levels)
        )
        self.last = nn.Conv1d(channels, 1, 1)

    def forward(self, x):
        x = self.first(x)
        for level in self.levels:
            x = x + torch.relu(level(x))
        return self.last(x).squeeze(1)


class Callback:
    def on_batch_end(self, learner, number, loss):
        pass

    def on_epoch_end(self, learner, number):
        pass


class History(Callback):
    """Write loss and a histogram of each tensor of weights to a file that survives a crash."""

    every = 1

    def __init__(self, file):
        self.file = file
        self.writer = csv.writer(self.file)

    def on_batch_end(self, learner, number, loss):
        if number % self.every:
            return
        row = [number, loss.item()]
        for weight in learner.model.parameters():
            row += torch.histc(weight.detach(), bins=20).tolist()
            if weight.grad is not None:
                row += torch.histc(weight.grad, bins=20).tolist()
        self.writer.writerow(row)
        self.file.flush()
        os.fsync(self.file.fileno())


class Stopper(Callback):
    def __init__(self, most):
        self.left = most

    def on_batch_end(self, learner, number, loss):
        self.left -= 1
        learner.stop = self.left <= 0


class Learner:
    def __init__(self, model, loss, optimizer, callbacks):
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.callbacks, self.stop = callbacks, False

    def tell(self, event, *args):
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def fit(self, loader, epochs):
        number = 0
        for epoch in range(epochs):
            for x, y in loader:
                loss = self.loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.tell("on_batch_end", number, loss)
                number += 1
                if self.stop:
                    return
            self.tell("on_epoch_end", epoch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=900)
    options = parser.parse_args()
    torch.manual_seed(6)
    torch.set_num_threads(1)
    series = torch.randn(2000, 3, 96).cumsum(2)
    data = TensorDataset(series, series.roll(-1, 2)[:, 0])
    train, _held_out = random_split(data, [1800, 200])
    model = Chain()
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True)
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        callbacks = [History(file), Stopper(options.steps)]
        Learner(model, nn.L1Loss(), optimizer, callbacks).fit(loader, epochs=1_000_000)
