"""What gradients that are views of buckets save a host, beside the copies back: fresh memory.

``python -m benchmarks.bucket_views`` trains layers in DistributedDataParallel on the processor, a
process for each way. Gradients of their own are new memory in each step, which the kernel empties
page by page; as views they are made in the same memory, one after another. Processor time and page
faults of a step, so that what else runs on the machine counts little; a minute.
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
from torch import distributed, nn, profiler
from torch.nn.parallel import DistributedDataParallel

from benchmarks.machine import machine, write_result
from gapless.catalogue.effects.reducer import COPY_BACK

RESULT: Final = Path(__file__).parent / "results" / "bucket_views.json"
CASES: Final = ((8, 512), (6, 1024), (4, 2048))  # layers, width
ROUNDS: Final = 2
STEPS: Final = 10


def train(layers: int, wide: int, *, is_view: bool) -> dict[str, float]:
    """Return the processor time of a step, its page faults, and its copies back."""
    torch.set_num_threads(1)
    meeting = f"file://{tempfile.mkdtemp()}/meeting"
    distributed.init_process_group("gloo", meeting, rank=0, world_size=1)
    body = nn.Sequential(*(nn.Linear(wide, wide) for _ in range(layers)))
    model = DistributedDataParallel(body, gradient_as_bucket_view=is_view)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    rows = torch.randn(8, wide)

    def take_steps() -> None:
        for _ in range(STEPS):
            model(rows).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    take_steps()
    faults, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    take_steps()
    cpu_ms = 1e3 * (time.process_time() - start) / STEPS
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
        take_steps()
    copies_us = sum(row.cpu_time_total for row in profile.key_averages() if row.key == COPY_BACK)
    distributed.destroy_process_group()
    return {"cpu_ms": cpu_ms, "faults": faults / STEPS, "copies_ms": copies_us / 1e3 / STEPS}


def measure_case(layers: int, wide: int) -> dict[str, Any]:
    """Return what a step saves by views, as a multiple of its copies back: the median of rounds."""
    rounds = [[_ask(layers, wide, is_view) for is_view in (False, True)] for _ in range(ROUNDS)]
    saved_ms = [plain["cpu_ms"] - view["cpu_ms"] for plain, view in rounds]
    copies_ms = statistics.median(plain["copies_ms"] for plain, _ in rounds)
    return {
        "layers": layers, "wide": wide, "rounds": rounds, "copies_ms": copies_ms,
        "saved_ms": statistics.median(saved_ms), "times": statistics.median(saved_ms) / copies_ms,
    }  # fmt: skip


def _ask(layers: int, wide: int, is_view: bool) -> dict[str, float]:  # noqa: FBT001
    line = [sys.executable, "-m", "benchmarks.bucket_views", "--one", str(layers), str(wide)]
    output = subprocess.run([*line, str(int(is_view))], capture_output=True, text=True, check=True)
    return json.loads(output.stdout.splitlines()[-1])


def main() -> int:
    """Measure all cases, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, type=int, metavar=("LAYERS", "WIDTH", "VIEW"))
    options = parser.parse_args()
    if options.one:
        layers, wide, view = options.one
        print(json.dumps(train(layers, wide, is_view=bool(view))))
        return 0
    cases = [measure_case(*case) for case in CASES]
    write_result({"machine": machine(), "cases": cases}, RESULT)
    print(*((case["wide"], round(case["times"], 2)) for case in cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
