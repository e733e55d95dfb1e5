"""Recognise tones in noise: spectra are made by a worker while the network learns."""

import argparse
import itertools
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, LENGTH = 8000, 4000


class Tones(Dataset):
    def __init__(self, count):
        self.count = count
        self.window = torch.hann_window(256)
        self.time = torch.arange(LENGTH) / RATE

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = index % 10
        noise = torch.Generator().manual_seed(index)
        wave = torch.sin(2 * math.pi * (300 + 120 * label) * self.time)
        wave = wave + 0.5 * torch.randn(LENGTH, generator=noise)
        spectrum = torch.stft(wave, 256, 128, window=self.window, return_complex=True)
        return spectrum.abs().log1p(), label


def one_thread(_worker):
    torch.set_num_threads(1)


class Ears(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv1d(129, 128, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(128, 128, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(128, 192, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(192, 10),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    torch.manual_seed(16)
    torch.set_num_threads(1)
    loader = DataLoader(
        Tones(1_000_000),
        batch_size=32,
        shuffle=False,
        num_workers=1,
        prefetch_factor=4,
        persistent_workers=True,
        worker_init_fn=one_thread,
    )
    ears = Ears()
    optimizer = torch.optim.SGD(ears.parameters(), lr=0.05, momentum=0.9)
    for spectra, labels in itertools.islice(loader, options.steps):
        loss = nn.functional.cross_entropy(ears(spectra), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
