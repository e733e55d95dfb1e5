"""What it is worth to copy batches of bytes of which the loop makes floats: ``ByteBatches``.

``PYTHONPATH=src python -m benchmarks.byte_batches_on_gpu --out FILE`` trains a small network on
pictures that a loader with four workers gives as bytes, by loops that make floats of them on the
host and by one that asks for floats on the device, each with ``ByteBatches`` and without, in turns;
the values on the device are compared first. Needs a GPU, six processors and a minute; ``--cpu`` is
a dry run.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.machine import machine, versions, write_result
from gapless.parts.batching.byte_batches import ByteBatches

MEAN: Final = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD: Final = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
LOOPS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "x.float() / 255, .to(device)": lambda x, device: (x.float() / 255).to(device),
    "normalised, .to(device)": lambda x, device: ((x.float() / 255 - MEAN) / STD).to(device),
    ".to(device, float32) / 255": lambda x, device: x.to(device, torch.float32) / 255,
}
SIDE: Final = 224


def make_loader(pictures: int, batch: int) -> Any:  # noqa: ANN401
    """Return a loader of pictures in memory."""
    pixels = torch.randint(0, 256, (pictures, 3, SIDE, SIDE), dtype=torch.uint8)
    return DataLoader(
        TensorDataset(pixels), batch, num_workers=4, pin_memory=torch.cuda.is_available()
    )


def time_epoch(loader: Any, loop: Callable[[Any, Any], Any], device: Any) -> float:  # noqa: ANN401
    """Return the ms of a step, from the second batch on."""
    model = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    n_steps, start = -1, 0.0
    for (x,) in loader:
        loss = model(loop(x, device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        n_steps += 1
        start = start or time.perf_counter()
    return 1e3 * (time.perf_counter() - start) / n_steps


def measure(loop: Callable[[Any, Any], Any], loader: Any, device: Any, rounds: int) -> Any:  # noqa: ANN401
    """Return what a step takes by each way, in turns, and whether values are the same."""
    ((expected,), (values,)) = (next(iter(source)) for source in (loader, ByteBatches(loader)))
    is_same = torch.equal(loop(expected, device) + 0, loop(values, device) + 0)
    turns: dict[str, list[float]] = {"plain": [], "bytes": []}
    for _ in range(rounds):
        for way, source in (("plain", loader), ("bytes", ByteBatches(loader))):
            turns[way].append(time_epoch(source, loop, device))
    ratios = [plain / copied for plain, copied in zip(turns["plain"], turns["bytes"], strict=True)]
    return {"is_same": is_same, "step_ms": turns, "times": statistics.median(ratios)}


def main() -> None:
    """Measure each loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--pictures", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = torch.device("cpu" if options.cpu else "cuda")
    torch.manual_seed(0)
    loader = make_loader(options.pictures, options.batch)
    result: dict[str, Any] = {"machine": machine(), "packages": versions(("torch",))}
    result["batch"] = options.batch
    result["loops"] = {
        name: measure(loop, loader, device, options.rounds) for name, loop in LOOPS.items()
    }
    print(write_result(result, options.out))


if __name__ == "__main__":
    main()
