"""Accelerate, with gapless as a tracker: the verdict is a line of its log.

python examples/accelerate_tracker.py
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader
from train_small import SlowSamples

from gapless.integrations.accelerate import GaplessTracker


def main():
    accelerator = Accelerator(cpu=True, log_with=[GaplessTracker(steps=50)])
    accelerator.init_trackers("example")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(SlowSamples(320), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, (inputs, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"loss": loss.item()}, step=step)
    accelerator.end_training()
    print(f"trained {step + 1} steps")


if __name__ == "__main__":
    main()
