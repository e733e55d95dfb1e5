"""A small training that waits for its data, as users write theirs; examples record it.

python examples/train_small.py [STEPS]
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SlowSamples(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.002)  # a disk, a decoder
        return torch.randn(64), index % 8


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, labels in DataLoader(SlowSamples(4 * steps), batch_size=4):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"trained {steps} steps, loss {loss.item():.2f}")


if __name__ == "__main__":
    main()
