"""What an all-reduce takes by its size: the latency α of a call, and what it moves a second.

``python -m benchmarks.exchange_costs BACKEND [--ranks N] --out FILE`` times calls in a row, of each
rank's own device (gloo: processors), for ten seconds. The bandwidth is that of the bus, as
nccl-tests define it, between the two largest sizes. What is in the file of other backends stays.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any, Final

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from benchmarks.machine import machine, write_result

SIZES: Final = tuple(4096 << shift for shift in range(0, 15, 2))  # bytes: 4 KiB to 64 MiB
ROUNDS: Final = 9
_MAX_CALLS: Final = 20  # in a row
_ROW_BYTES: Final = 2**28  # of calls in a row, about


def time_calls(numbers: torch.Tensor) -> float:
    """Return the µs of a call, of some in a row."""
    count = max(3, min(_MAX_CALLS, _ROW_BYTES // numbers.nbytes))
    distributed.barrier()
    start = time.perf_counter()
    for _ in range(count):
        distributed.all_reduce(numbers)
    if numbers.is_cuda:
        torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / count


def measure_sizes(rank: int, backend: str, ranks: int, out: Path) -> None:
    """Time all sizes in turns; the first rank writes."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29417")
    torch.set_num_threads(1)
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(backend, rank=rank, world_size=ranks)
    tensors = {size: torch.zeros(size // 4, device=device) for size in SIZES}
    times_us = {size: [time_calls(tensors[size]) for _ in range(1 + ROUNDS)][1:] for size in SIZES}
    distributed.destroy_process_group()
    if rank == 0:
        medians_us = {size: statistics.median(times) for size, times in times_us.items()}
        write_case(f"{backend}-{ranks}", describe(medians_us, ranks, device), out)


def describe(medians_us: dict[int, float], ranks: int, device: torch.device) -> dict[str, Any]:
    """Return the case: times by size, α in µs, bytes of the bus in a second."""
    *_, large, largest = SIZES
    moved = (largest - large) * 2 * (ranks - 1) / ranks
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "machine": {**machine(), "torch": torch.__version__, "device": name},
        "us_by_bytes": medians_us,
        "alpha_us": medians_us[SIZES[0]],
        "bus_bytes_per_s": moved / (medians_us[largest] - medians_us[large]) * 1e6,
    }


def write_case(name: str, case: dict[str, Any], out: Path) -> None:
    """Write one case beside those that are in the file."""
    cases: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    write_result({**cases, name: case}, out)


def main() -> None:
    """Start a process for each rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=("gloo", "nccl"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    arguments = (options.backend, options.ranks, options.out)
    spawn(measure_sizes, arguments, nprocs=options.ranks)


if __name__ == "__main__":
    main()
