"""Measure two ways to train one model on two GPUs, in turns of blocks of steps of one job.

``torchrun --nproc-per-node 2 -m benchmarks.two_gpus_in_turns replicated MODEL --out FILE``:
DataParallel in the first process, while the other waits, and DistributedDataParallel in both, of
the same batch. ``prefetched``: FSDP2 as it is, and with the all-gather of the next layer issued a
layer ahead. The medians, and the ratio of each pair of blocks, are added to FILE; with ``--run
FOLDER`` what a run of ``two_gpus.py`` shows, and what is foretold of it, is added alone.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import torch
from torch import distributed

from benchmarks.machine import machine, write_result
from benchmarks.two_gpus import (
    IS_GPU,
    MODELS,
    make_batch,
    make_model,
    sharded_layers,
    train_step,
    wrap_model,
)

WAYS: Final = {"replicated": ("DataParallel", "ddp"), "prefetched": ("fsdp", "fsdp ahead")}
_BLOCK_S: Final = 0.4  # of steps
_WARM_STEPS: Final = 10

Step = Callable[[], Any]


def time_block(step: Step | None, n_steps: int, gate: Any) -> float:  # noqa: ANN401
    """Return the ms of a step in a block; a rank without one waits meanwhile, on its host."""
    distributed.barrier(gate)
    start = time.perf_counter()
    for _ in range(n_steps if step else 0):
        cast("Step", step)()
    if IS_GPU:
        torch.cuda.synchronize()
    took_ms = 1e3 * (time.perf_counter() - start) / n_steps
    distributed.barrier(gate)
    return took_ms


def make_trainer(mode: str, name: str, device: torch.device) -> tuple[Any, Step]:
    """Return a model wrapped as the mode says, and what trains it by one step."""
    model = wrap_model(mode, make_model(name).to(device), device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rows = make_batch(name, device, 2 if mode == "replicated" else 1)
    return model, lambda: train_step(model, optimizer, rows)


def make_ways(kind: str, name: str, device: torch.device) -> tuple[Step | None, Step]:
    """Return what takes a step in either way; ``None`` on a rank that has no part in it."""
    if kind == "replicated":
        is_driver = device.index in (None, 0)
        lone = make_trainer("replicated", name, device)[1] if is_driver else None
        return lone, make_trainer("ddp", name, device)[1]
    model, step = make_trainer("sharded", name, device)
    layers = sharded_layers(model)

    def train(*, is_ahead: bool) -> None:
        for layer, following in pairwise(layers):
            layer.set_modules_to_forward_prefetch([following] if is_ahead else [])
        step()

    return (lambda: train(is_ahead=False)), (lambda: train(is_ahead=True))


def measure(kind: str, name: str, device: torch.device, seconds: float) -> list[list[float]]:
    """Return the ms of a step in pairs of blocks, of which every second begins with the other."""
    gate: Any = distributed.new_group(backend="gloo")
    ways = make_ways(kind, name, device)
    for way in ways:
        time_block(way, _WARM_STEPS, gate)
    usual_ms = torch.tensor([time_block(way, _WARM_STEPS, gate) for way in ways])
    distributed.broadcast(usual_ms, 0, gate)
    counts = [max(5, int(1e3 * _BLOCK_S / max(0.01, each))) for each in usual_ms.tolist()]
    pairs: list[list[float]] = []
    for turn in range(max(2, round(seconds / 2 / _BLOCK_S))):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        times_ms = {way: time_block(ways[way], counts[way], gate) for way in order}
        pairs.append([times_ms[0], times_ms[1]])
    return pairs


def describe(kind: str, pairs: list[list[float]]) -> dict[str, Any]:
    """Return the medians of both ways, the ratios by pair, and what ran them."""
    first, second = WAYS[kind]
    return {
        first: round(statistics.median(pair[0] for pair in pairs), 4),
        second: round(statistics.median(pair[1] for pair in pairs), 4),
        "ratios": [round(pair[0] / pair[1], 4) for pair in pairs],
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if IS_GPU else None,
    }


def ask_run(run: Path) -> dict[str, Any]:
    """Return what a process for each GPU is foretold to give, and what exchanges are exposed."""
    from benchmarks.judging.jobs import price_run
    from gapless.pricing.diagnose import diagnose

    prices = price_run(run)
    speedups = [
        finding.prediction.speedup
        for finding in diagnose(prices).findings
        if finding.detection.code == "G610"
    ]
    return {
        "foretold": msgspec.to_builtins(speedups[0]) if speedups else None,
        "step_ms": (prices.evidence.step_ns or 0) / 1e6,
        "exposed_ms": prices.evidence.per_step("comm.exposed") / 1e6,
    }


def add_result(case: str, result: dict[str, Any], out: Path) -> None:
    """Add a start, or what is foretold, to those of a case."""
    cases = json.loads(out.read_text()) if out.exists() else {}
    cases.setdefault("machine", machine())  # that it was measured on
    cases.setdefault(case, []).append(result)
    write_result(cases, out)
    print(f"{case}: {json.dumps(result)}", flush=True)


def main() -> None:
    """Measure; the first rank adds to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=WAYS)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--run", type=Path, help="what is foretold of it is added")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    case = f"{options.kind} {options.model}"
    if options.run is not None:
        add_result(case, ask_run(options.run), options.out)
        return
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank) if IS_GPU else torch.device("cpu")
    if IS_GPU:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if IS_GPU else "gloo")
    start = describe(options.kind, measure(options.kind, options.model, device, options.seconds))
    if rank == 0:
        add_result(case, start, options.out)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
