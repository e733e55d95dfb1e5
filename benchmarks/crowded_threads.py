"""What a small training on the CPU takes beside busy processes, by the number of its threads.

``python -m benchmarks.crowded_threads --out FILE`` trains a network of 64 units, batch by batch,
with a thread for each processor and with one, in turns, while none, half or all of the processors
are kept busy by other processes, beside what runs anyway (``load``). Needs a quiet machine and a
minute.
"""

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch
from torch import nn

from benchmarks.machine import machine, versions, write_result

_ROUNDS: Final = 4
_ROUND_S: Final = 2.0


def keep_busy() -> None:
    """Use a processor until killed."""
    while True:
        pass


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """Keep processes busy meanwhile."""
    processes = [multiprocessing.Process(target=keep_busy, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def time_step(threads: int) -> float:
    """Return the mean ms of a step."""
    torch.set_num_threads(threads)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(4096, 64)
    n_steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + _ROUND_S:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        n_steps += 1
    return 1e3 * (time.perf_counter() - start) / n_steps


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    cpus, rows = len(os.sched_getaffinity(0)), []
    out = parser.parse_args().out
    load = round(os.getloadavg()[0], 1)  # of others, beforehand
    for n_busy in (0, cpus // 2, cpus):
        with busy_processes(n_busy):
            rounds = [(time_step(cpus), time_step(1)) for _ in range(_ROUNDS)]
        all_ms, single_ms = (
            round(statistics.median(times), 3) for times in zip(*rounds, strict=True)
        )
        rows.append({"busy": n_busy, "all_threads_ms": all_ms, "single_thread_ms": single_ms})
        print(rows[-1])
    result = {"machine": machine(), "load": load, "versions": versions(), "rows": rows}
    print(write_result(result, out))


if __name__ == "__main__":
    main()
