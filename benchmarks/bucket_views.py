"""What gradients that are views of buckets save on the host, beside the copies back.

``python -m benchmarks.bucket_views`` trains layers in DistributedDataParallel, in a group of one
process, with ``gradient_as_bucket_view`` and without, each in a process of its own: without it all
gradients are made anew in each step, in pages that the kernel has to clear. Processor time and page
faults of a step, beside the processor time of copying as many bytes. A minute.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.machine import machine, write_result

CASES: Final = ((2, 512, 96), (4, 1024, 32), (4, 2048, 8))
ROUNDS: Final = 2
STEPS: Final = 20
RESULT: Final = Path(__file__).parent / "results" / "bucket_views.json"


def train(layers: int, wide: int, batch: int, *, is_view: bool) -> dict[str, float]:
    """Return the processor's ms, the faults, and the ms of copies of a step."""
    torch.set_num_threads(1)
    meeting = f"file://{tempfile.mkdtemp()}/meeting"
    distributed.init_process_group("gloo", meeting, rank=0, world_size=1)
    body = [part for _ in range(layers) for part in (nn.Linear(wide, wide), nn.ReLU())]
    model = DistributedDataParallel(
        nn.Sequential(*body, nn.Linear(wide, 16)), gradient_as_bucket_view=is_view
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = torch.randn(batch, wide)

    def step() -> None:
        model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(5):
        step()
    faults, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    for _ in range(STEPS):
        step()
    spent_ms = 1e3 * (time.process_time() - start) / STEPS
    n_faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / STEPS
    return {"cpu_ms": spent_ms, "faults": n_faults, "copies_ms": time_copies(model)}


def time_copies(model: nn.Module) -> float:
    """Return the processor's ms that copying all gradients takes, between tensors that exist."""
    sources = [torch.zeros_like(parameter).add_(1) for parameter in model.parameters()]
    targets = [torch.zeros_like(source).add_(1) for source in sources]
    start = time.process_time()
    for _ in range(STEPS):
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)
    return 1e3 * (time.process_time() - start) / STEPS


def measure_case(case: tuple[int, int, int]) -> dict[str, Any]:
    """Return the medians of a case, each arm in processes of its own, in turns."""
    arms: dict[str, list[dict[str, float]]] = {"plain": [], "view": []}
    for _ in range(ROUNDS):
        for name, steps in arms.items():
            command = [sys.executable, "-m", "benchmarks.bucket_views", "--train", name]
            command += [str(number) for number in case]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            steps.append(json.loads(output))
    medians = {
        name: {key: statistics.median(step[key] for step in steps) for key in steps[0]}
        for name, steps in arms.items()
    }
    saved_ms = medians["plain"]["cpu_ms"] - medians["view"]["cpu_ms"]
    layers, wide, batch = case
    return {
        "layers": layers, "wide": wide, "batch": batch, **medians,
        "saved_per_copies": saved_ms / medians["plain"]["copies_ms"],
    }  # fmt: skip


def main() -> None:
    """Measure all cases, or train one arm of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", choices=("plain", "view"))
    parser.add_argument("case", nargs="*", type=int)
    options = parser.parse_args()
    if options.train:
        layers, wide, batch = options.case
        print(json.dumps(train(layers, wide, batch, is_view=options.train == "view")))
        return
    cases = [measure_case(case) for case in CASES]
    write_result({"machine": machine(), "cases": cases}, RESULT)


if __name__ == "__main__":
    main()
