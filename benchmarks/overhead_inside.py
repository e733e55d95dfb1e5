"""What a step pays for the light recorder: ``python -m benchmarks.overhead_inside``.

One process trains on and on; stretches of steps with and without ``record()`` take turns, A B B A,
so that each ratio is one of neighbours in time. The two stretches without it, compared with each
other, are the A/A noise that stands beside. Windows are off, and the first steps are not counted:
both are paid once, not by the step (``overhead`` and ``command_cost`` have them).
Docs: benchmarks/README.md.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.machine import machine, write_result
from gapless.launch.environment import RecorderSettings
from gapless.launch.run.in_process import record

PLAIN, RECORDED = "plain", "recorded"
N_SETTLING = 250  # steps at the start of a stretch, where what is told once is told


class RepeatedBatch(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Return the same batch again and again: loading costs next to nothing."""

    def __init__(self, inputs: torch.Tensor, classes: torch.Tensor, count: int) -> None:
        self.batch, self.count = (inputs, classes), count

    def __len__(self) -> int:
        """Count the batches."""
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the batch."""
        return self.batch


@dataclass(frozen=True)
class Stretch:
    """The mean price of a step in one stretch, in ns."""

    recorded: bool
    wall_ns: float
    cpu_ns: float


def build_training(options: argparse.Namespace, width: int) -> Callable[[str], Stretch]:
    """Return a function that trains a stretch of steps, recorded or not."""
    torch.manual_seed(0)
    layers = [layer for _ in range(options.depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Linear(width, 10)).to(options.device)
    inputs = torch.randn(options.batch, width, device=options.device)
    classes = torch.randint(0, 10, (options.batch,), device=options.device)
    data = RepeatedBatch(inputs, classes, options.steps + N_SETTLING)

    def train_stretch(arm: str) -> Stretch:
        recorded = arm == RECORDED
        loader = DataLoader(data, batch_size=None)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        with tempfile.TemporaryDirectory() as folder:
            recorder = (
                record(Path(folder), RecorderSettings(windows=False)) if recorded else nullcontext()
            )
            with recorder:
                return _train_steps(net, loader, optimizer, recorded=recorded)

    return train_stretch


def _train_steps(
    net: nn.Module, loader: DataLoader[Any], optimizer: torch.optim.Optimizer, *, recorded: bool
) -> Stretch:
    start = 0, 0
    for count, (inputs, classes) in enumerate(loader, start=1):
        if count == N_SETTLING + 1:
            _wait(inputs)
            start = time.perf_counter_ns(), time.thread_time_ns()
        loss = nn.functional.cross_entropy(net(inputs), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if count == len(loader):  # before the loader ends
            _wait(inputs)
            wall, cpu = time.perf_counter_ns() - start[0], time.thread_time_ns() - start[1]
            return Stretch(recorded, wall / (count - N_SETTLING), cpu / (count - N_SETTLING))
    raise AssertionError


def _wait(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def measure(options: argparse.Namespace, width: int) -> dict[str, Any]:
    """Train pairs of stretches, A B B A, and give what a recorded step costs more."""
    stretch = build_training(options, width)
    stretch(PLAIN)
    stretch(RECORDED)
    plain: list[Stretch] = []
    recorded: list[Stretch] = []
    for number in range(options.pairs):
        for arm in (PLAIN, RECORDED) if number % 2 == 0 else (RECORDED, PLAIN):
            (recorded if arm == RECORDED else plain).append(stretch(arm))
    result: dict[str, Any] = {"width": width, "pairs": options.pairs, "steps": options.steps}
    for figure in ("wall_ns", "cpu_ns"):
        plain_ns = [getattr(plain_stretch, figure) for plain_stretch in plain]
        recorded_ns = [getattr(recorded_stretch, figure) for recorded_stretch in recorded]
        added_ns = [b - a for a, b in zip(plain_ns, recorded_ns, strict=True)]
        noise_ns = [abs(b - a) for a, b in zip(plain_ns[1::2], plain_ns[2::2], strict=False)]
        result[figure] = {
            "plain": statistics.median(plain_ns),
            "recorded": statistics.median(recorded_ns),
            "added": _spread(added_ns),
            "ratio": _spread([b / a for a, b in zip(plain_ns, recorded_ns, strict=True)]),
            "noise": statistics.median(noise_ns) if noise_ns else None,  # two neighbours without it
        }
    return result


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    cut = len(ordered) // 4
    return {
        "median": statistics.median(ordered),
        "quarter": ordered[cut],
        "three_quarters": ordered[-1 - cut],
    }


def main() -> None:
    """Measure each width, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    result = {
        "machine": machine(),
        "torch": torch.__version__,
        "device": device,
        "results": [measure(options, width) for width in options.widths],
    }
    print(write_result(result, options.out))


if __name__ == "__main__":
    main()
