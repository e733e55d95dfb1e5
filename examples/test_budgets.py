"""Budgets in a project's own tests.

The plugin comes with gapless, and is off for tests that have no budget:

    pytest examples/test_budgets.py
    pytest examples/test_budgets.py --gapless-update    writes the baseline of the last test
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(steps):
    data = TensorDataset(torch.randn(16 * steps, 64), torch.randint(0, 8, (16 * steps,)))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, labels in DataLoader(data, batch_size=16):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.gapless_budget(step="5 s")
def test_a_step_is_quick():
    train(60)


def test_the_loader_keeps_up(gapless_budget):
    with gapless_budget(data="90 %"):
        train(60)


@pytest.mark.gapless_budget(slower="50 %")
def test_no_slower_than_before():
    train(60)
