"""Record a small training without a device, in a process that may fail alone."""

import sys

import torch
from torch.profiler import (
    ProfilerActivity,
    profile,
    schedule,  # pyright: ignore[reportUnknownVariableType]
)

STEPS = 4


def main(path: str) -> None:
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),  # pyright: ignore[reportUnknownArgumentType]
        record_shapes=True,
    ) as prof:
        for _ in range(1 + STEPS):
            optimizer.zero_grad()
            model(torch.randn(128, 64)).pow(2).sum().backward()
            optimizer.step()
            prof.step()
    prof.export_chrome_trace(path)


if __name__ == "__main__":
    main(sys.argv[1])
