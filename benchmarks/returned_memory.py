"""What memory costs that the C library gives back in each step, and what a window changes in it.

    PYTHONPATH=src python -m benchmarks.returned_memory  # benchmarks/results/returned_memory.json

A training makes tensors of 16 MB in each step. As it is, glibc gives their memory back to the
kernel, which clears each page when it is next touched; or it keeps it
(``MALLOC_TRIM_THRESHOLD_``, ``MALLOC_MMAP_MAX_``). In the middle of each run torch's profiler
is on for some steps: what it leaves on the heap may keep the memory from going back. Page faults
and time of a step before and after that, in fresh processes, by turns.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine, versions, write_result
from gapless.catalogue.fixes.host.malloc import VARIABLES

_ROUNDS: Final = 6
_RESULT: Final = Path(__file__).parent / "results" / "returned_memory.json"
_TRAINING: Final = """
import json, resource, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(10, 10)
optimizer = torch.optim.Adam(model.parameters())
def step():
    optimizer.zero_grad()
    model(torch.rand(5, 10)).sum().backward()
    optimizer.step()
    tensors = torch.rand(61708, 8, 8)
    doubled = tensors * 2
    rounded = doubled.round()
def measure(steps):
    faults, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    for _ in range(steps):
        step()
    seconds = (time.perf_counter() - begin) / steps
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / steps
    return {"ms": round(1e3 * seconds, 2), "page_faults": round(faults)}
measure(10)
rows = [measure(40)]
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
    measure(6)
measure(10)
print(json.dumps([*rows, measure(40)]))
"""


def main() -> int:
    """Run both by turns; write each run's figures, and the medians of the first part."""
    runs: dict[str, list[list[dict[str, Any]]]] = {"as_it_is": [], "kept": []}
    for _ in range(_ROUNDS):
        for name, variables in (("as_it_is", {}), ("kept", VARIABLES)):
            runs[name].append(_run(variables))
    medians = {name: statistics.median(run[0]["ms"] for run in rows) for name, rows in runs.items()}
    result = {
        "machine": machine() | {"packages": versions(("torch",))},
        "before_and_after_a_window": runs,
        "ms_before_a_window": medians,
        "times_as_fast_kept": round(medians["as_it_is"] / medians["kept"], 2),
    }
    print(write_result(result, _RESULT))
    return 0


def _run(variables: dict[str, str]) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    command = [sys.executable, "-c", _TRAINING]
    printed = subprocess.run(
        command, env=environment | variables, capture_output=True, text=True, check=True
    ).stdout
    rows: list[dict[str, Any]] = json.loads(printed)
    return rows


if __name__ == "__main__":
    sys.exit(main())
