"""A training that times itself: an MLP of a chosen size on generated tensors.

It is run as it is, under a recorder or not; what it prints at its end is the benchmark's input.
"""

import argparse
import json
import os
import resource
import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SETTLING = 250  # steps: what a recorder tells once is told there


def model_of(width: int, depth: int) -> nn.Sequential:
    """Return an MLP."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def main() -> None:
    """Train, and write figures of the steps after the settling ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--profiler", action="store_true", help="torch.profiler, always on")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    net = model_of(options.width, options.depth).to(options.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    rows = options.batch * 50
    data = TensorDataset(torch.randn(rows, options.width), torch.randint(0, 10, (rows,)))
    loader = DataLoader(data, batch_size=options.batch)
    edges, cpu = [], []
    recorded = torch.profiler.profile(record_shapes=True) if options.profiler else nullcontext()
    with recorded:
        while len(edges) < options.steps:
            for inputs, classes in loader:
                outputs = net(inputs.to(options.device))
                loss = nn.functional.cross_entropy(outputs, classes.to(options.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                edges.append(time.perf_counter_ns())
                cpu.append(time.thread_time_ns())
        if options.device != "cpu":
            torch.cuda.synchronize()
            edges[-1] = time.perf_counter_ns()
    counted = len(edges) - 1 - SETTLING
    walls = sorted(b - a for a, b in pairwise(edges[SETTLING:]))
    figures = {
        "steps": counted,
        "wall_ns": (edges[-1] - edges[SETTLING]) / counted,
        "median_ns": walls[len(walls) // 2],
        "thread_cpu_ns": (cpu[-1] - cpu[SETTLING]) / counted,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "pid": os.getpid(),
    }
    options.out.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
