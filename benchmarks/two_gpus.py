"""Train layers on two GPUs: in DistributedDataParallel by a backend, or in DataParallel.

``torchrun --nproc-per-node 2 benchmarks/two_gpus.py gloo`` or ``nccl``, and ``python
benchmarks/two_gpus.py replicated``, which gives each GPU half of the same batch, and has one
process for both. What a step takes is printed; ``gapless run`` and ``gapless try`` are given the
same lines. Nothing here knows of gapless.
"""

import argparse
import os
import time
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

WIDE, LAYERS, ROWS = (2048, 6, 512) if torch.cuda.is_available() else (64, 2, 16)


def wrap_model(mode: str, device: torch.device) -> Any:  # noqa: ANN401
    """Return the layers on their devices."""
    layers = (module for _ in range(LAYERS) for module in (nn.Linear(WIDE, WIDE), nn.ReLU()))
    model = nn.Sequential(*layers).to(device)
    if mode == "replicated":
        return DataParallel(model)
    distributed.init_process_group(mode)
    return DistributedDataParallel(
        model, device_ids=[device.index] if device.type == "cuda" else None
    )


def main() -> None:
    """Train, and print what a step takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("gloo", "nccl", "replicated"))
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    is_gpu, rank = torch.cuda.is_available(), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", rank) if is_gpu else torch.device("cpu")
    model = wrap_model(options.mode, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rows = torch.randn(ROWS * (2 if options.mode == "replicated" else 1), WIDE, device=device)
    start, loss = time.perf_counter(), torch.zeros(())
    for step in range(options.steps):
        if step == options.steps // 2:
            loss.item()  # what was launched before is not timed
            start = time.perf_counter()
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    loss.item()
    took_ms = 1e3 * (time.perf_counter() - start) / (options.steps - options.steps // 2)
    print(f"{options.mode}: {took_ms:.3f} ms a step", flush=True)
    if options.mode != "replicated":
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
