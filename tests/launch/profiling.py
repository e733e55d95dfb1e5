"""A training that runs torch's profiler itself: ``profiling.py schedule|export``."""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

profilers: Any = torch.profiler
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = DataLoader(TensorDataset(torch.randn(480, 16), torch.randn(480, 1)), batch_size=16)


def train(loaded_batches: Iterator[Any]) -> Iterator[int]:
    """Train on each batch, and say so after it."""
    for step, (images, targets) in enumerate(loaded_batches):
        optimizer.zero_grad()
        (model(images) - targets).pow(2).mean().backward()
        optimizer.step()
        yield step


def profile_on_schedule() -> None:
    schedule = profilers.schedule(wait=2, warmup=2, active=4, repeat=2)
    handler = profilers.tensorboard_trace_handler("traces", use_gzip=True)
    with profilers.profile(
        activities=[profilers.ProfilerActivity.CPU],
        schedule=schedule,
        on_trace_ready=handler,
        with_stack=True,
        acc_events=True,
    ) as profiler:
        for _ in train(iter(batches)):
            profiler.step()


def profile_and_export() -> None:
    steps = train(iter(batches))
    with profilers.profile(activities=[profilers.ProfilerActivity.CPU]) as profiler:
        for _ in range(6):
            next(steps)
    profiler.export_chrome_trace("trace.json")
    for _ in steps:
        pass


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"schedule": profile_on_schedule, "export": profile_and_export}[sys.argv[1]]()
