"""Train a model on two GPUs: in DistributedDataParallel by a backend, DataParallel, or sharded.

``torchrun --nproc-per-node 2 benchmarks/two_gpus.py gloo``, ``nccl`` or ``sharded`` (FSDP2), and
``python benchmarks/two_gpus.py replicated``, which gives each GPU half of the same batch, and has
one process for both. What a step takes is printed; ``gapless run`` and ``gapless try`` are given
the same lines. Nothing here knows of gapless. What trainings of one process take beside one another
is in ``two_gpus_in_turns.py``.
"""

import argparse
import os
import time
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

IS_GPU = torch.cuda.is_available()
WIDE, LAYERS, ROWS = (2048, 6, 512) if IS_GPU else (64, 2, 16)
CHANNELS, SIDE, PICTURES = (128, 64, 96) if IS_GPU else (4, 8, 4)
TOKENS, TEXTS = (64, 32) if IS_GPU else (8, 4)
MODELS = ("layers", "convolutions", "encoder")


def make_model(name: str) -> nn.Module:
    """Return the model: wide layers, convolutions (of much work), or an encoder (of many calls)."""
    if name == "encoder":
        layer = nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, LAYERS)
    if name == "convolutions":
        parts = (
            (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS), nn.ReLU())
            for _ in range(LAYERS)
        )
    else:
        parts = ((nn.Linear(WIDE, WIDE), nn.ReLU()) for _ in range(LAYERS))
    return nn.Sequential(*(module for part in parts for module in part))


def make_batch(name: str, device: torch.device, parts: int) -> torch.Tensor:
    """Return a batch of so many parts, of which each GPU trains on one at a time."""
    shapes = {
        "encoder": (TEXTS, TOKENS, 256),
        "convolutions": (PICTURES, CHANNELS, SIDE, SIDE),
        "layers": (ROWS, WIDE),
    }
    rows, *shape = shapes[name]
    return torch.randn(rows * parts, *shape, device=device)


def wrap_model(mode: str, model: nn.Module, device: torch.device) -> Any:  # noqa: ANN401
    """Return the model on its devices; ranks have met."""
    if mode == "sharded":
        return shard(model)
    if mode == "replicated":
        return DataParallel(model)
    return DistributedDataParallel(
        model, device_ids=[device.index] if device.type == "cuda" else None
    )


def shard(model: nn.Module) -> Any:  # noqa: ANN401
    """Return the model with each layer sharded by itself, and the whole around them."""
    from torch.distributed.fsdp import fully_shard

    for layer in sharded_layers(model):
        fully_shard(layer)
    return fully_shard(model)


def sharded_layers(model: nn.Module) -> list[Any]:
    """Return the layers that are sharded each by itself."""
    layers = getattr(model, "layers", None) or model.children()
    return [layer for layer in layers if any(True for _ in layer.parameters())]


def train_step(model: Any, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    """Take one step; return the loss."""
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def main() -> None:
    """Train, and print what a step takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("gloo", "nccl", "replicated", "sharded"))
    parser.add_argument("--model", choices=MODELS, default="layers")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    rank, is_lone = int(os.environ.get("LOCAL_RANK", "0")), options.mode == "replicated"
    device = torch.device("cuda", rank) if IS_GPU else torch.device("cpu")
    if IS_GPU:
        torch.cuda.set_device(device)
    if not is_lone:
        backend = "nccl" if IS_GPU else "gloo"
        distributed.init_process_group(backend if options.mode == "sharded" else options.mode)
    model = wrap_model(options.mode, make_model(options.model).to(device), device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rows = make_batch(options.model, device, 2 if is_lone else 1)
    start, loss = time.perf_counter(), torch.zeros(())
    for step in range(options.steps):
        if step == options.steps // 2:
            loss.item()  # what was launched before is not timed
            start = time.perf_counter()
        loss = train_step(model, optimizer, rows)
    loss.item()
    took_ms = 1e3 * (time.perf_counter() - start) / (options.steps - options.steps // 2)
    print(f"{options.mode} {options.model}: {took_ms:.3f} ms a step", flush=True)
    if not is_lone:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
