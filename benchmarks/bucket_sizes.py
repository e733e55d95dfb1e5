"""Measure how large the buckets of DistributedDataParallel should be, in turns of one job.

``torchrun --nproc-per-node 2 benchmarks/bucket_sizes.py turns --out FILE`` trains one model in one
job with buckets of each size, in turns of blocks of steps. ``… train --mib SIZE`` is the training
that ``gapless run`` records; nothing in it knows of gapless. ``python -m benchmarks.bucket_sizes
foretell --run FOLDER --mib SIZE … --out FILE`` adds what buckets of other sizes are foretold to
make of a step of such a run.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from msgspec import to_builtins
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.machine import write_result

IS_GPU: Final = torch.cuda.is_available()
SIZES_MIB: Final = (1.0, 25.0, 1000.0)
WIDE, LAYERS, ROWS = (4096, 6, 4096) if IS_GPU else (1024, 6, 128)
_BLOCK_S: Final = 0.4 if IS_GPU else 1.5  # of steps
_WARM_STEPS: Final = 6


class Trainer:
    """A model in DistributedDataParallel with buckets of one size, and what trains it by a step."""

    def __init__(self, mib: float, rows: int) -> None:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if IS_GPU else "cpu"
        torch.manual_seed(0)
        layers = ((nn.Linear(WIDE, WIDE), nn.ReLU()) for _ in range(LAYERS))
        model = nn.Sequential(*(module for pair in layers for module in pair)).to(device)
        self.model = DistributedDataParallel(model, bucket_cap_mb=mib)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.rows = torch.randn(rows, WIDE, device=device)

    def step(self) -> None:
        """Take one step."""
        loss = self.model(self.rows).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.item()  # as if it were logged: no host is steps ahead of its device


def time_block(trainer: Trainer, n_steps: int, gate: Any) -> float:  # noqa: ANN401
    """Return the ms of a step in a block."""
    distributed.barrier(gate)
    start = time.perf_counter()
    for _ in range(n_steps):
        trainer.step()
    if IS_GPU:
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / n_steps


def measure(sizes: tuple[float, ...], rows: int, seconds: float) -> dict[str, list[float]]:
    """Return the ms of a step by size, a block each, every round beginning with another."""
    gate: Any = distributed.new_group(backend="gloo")
    trainers = [Trainer(mib, rows) for mib in sizes]
    for trainer in trainers:
        time_block(trainer, _WARM_STEPS, gate)
    usual_ms = torch.tensor([max(time_block(each, 3, gate) for each in trainers)])
    distributed.broadcast(usual_ms, 0, gate)
    n_steps = max(3, int(1e3 * _BLOCK_S / float(usual_ms)))
    times_ms: dict[str, list[float]] = {f"{mib:g}": [] for mib in sizes}
    for turn in range(max(2, round(seconds / len(sizes) / _BLOCK_S))):
        for offset in range(len(sizes)):
            index = (turn + offset) % len(sizes)
            took_ms = time_block(trainers[index], n_steps, gate)
            times_ms[f"{sizes[index]:g}"].append(round(took_ms, 4))
    return times_ms


def train(mib: float, rows: int, steps: int) -> float:
    """Train with buckets of one size; return the ms of a step, of the second half."""
    trainer = Trainer(mib, rows)
    gate: Any = distributed.new_group(backend="gloo")
    time_block(trainer, steps // 2, gate)
    return time_block(trainer, steps - steps // 2, gate)


def foretell(run: Path, sizes: Sequence[float]) -> dict[str, Any]:
    """Return how much faster a step of a run is foretold to be with buckets of each size."""
    from benchmarks.judging.jobs import price_run
    from gapless.catalogue.queries.ranks.buckets import change_buckets
    from gapless.pricing.price import price_changes

    prices = price_run(run)
    speedups = {
        f"{mib:g}": price_changes(prices, [change_buckets(prices.evidence, mib)]).speedup
        for mib in sizes
    }
    step_ms = (prices.evidence.step_ns or 0) / 1e6
    foretold = {mib: speedup and to_builtins(speedup) for mib, speedup in speedups.items()}
    return {"run": run.parent.name, "step_ms": step_ms, "foretold": foretold}


def main() -> None:
    """Train, measure, or foretell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("turns", "train", "foretell"))
    parser.add_argument("--mib", type=float, nargs="+", default=SIZES_MIB)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--run", type=Path, help="what is foretold of it is added")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.action == "foretell":
        rows = json.loads(options.out.read_text()) if options.out.exists() else {}
        rows.setdefault("foretold", []).append(foretell(options.run, options.mib))
        write_result(rows, options.out)
    else:
        _take_part(options)


def _take_part(options: argparse.Namespace) -> None:
    """Train or measure as one rank of a job."""
    if IS_GPU:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.backends.cuda.matmul.allow_tf32 = True
    else:
        torch.set_num_threads(1)
    distributed.init_process_group("nccl" if IS_GPU else "gloo")
    is_first = distributed.get_rank() == 0
    if options.action == "train":
        took_ms = train(options.mib[0], options.rows, options.steps)
        if is_first:
            print(f"{options.mib[0]:g} MiB: {took_ms:.3f} ms a step", flush=True)
    else:
        times_ms = measure(tuple(options.mib), options.rows, options.seconds)
        medians = {mib: statistics.median(row) for mib, row in times_ms.items()}
        device = torch.cuda.get_device_name() if IS_GPU else None
        result = {"median_ms": medians, "ms": times_ms, "rows": options.rows}
        if is_first:
            print(json.dumps(medians), flush=True)
            options.out.write_text(json.dumps({**result, "device": device}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
