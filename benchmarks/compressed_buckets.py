"""What exchanging gradients in bfloat16 costs beside the transfer: torch's hook, by the bucket.

``torchrun --standalone --nproc-per-node 2 -m benchmarks.compressed_buckets --out FILE`` trains
layers in DistributedDataParallel on two GPUs, with ``bf16_compress_hook`` and without, in turns.
The cost of a bucket is what a step takes longer with it, by the number of buckets: what half of the
bytes save is in it, so that it is no more than the hook's own. Half a minute.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any, Final

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from benchmarks.machine import machine, write_result

CASES: Final = ((6, 4096, 64), (6, 4096, 2048), (12, 2048, 64), (24, 2048, 64), (24, 2048, 2048))
ROUNDS: Final = 5
STEPS: Final = 60
counts: list[int] = []  # of buckets that were exchanged by the hook


def make_training(layers: int, wide: int, device: torch.device, *, hooked: bool) -> tuple[Any, Any]:
    """Return a model in DistributedDataParallel, and its optimizer."""
    body = nn.Sequential(*(nn.Linear(wide, wide) for _ in range(layers))).to(device)
    model = DistributedDataParallel(body, device_ids=[device.index], gradient_as_bucket_view=True)
    if hooked:
        model.register_comm_hook(None, count_bucket)
    return model, torch.optim.SGD(model.parameters(), lr=1e-6)


def count_bucket(
    group: Any,  # noqa: ANN401
    bucket: distributed.GradBucket,  # pyright: ignore[reportPrivateImportUsage]
) -> torch.futures.Future[torch.Tensor]:
    """Count a bucket, and exchange it by torch's hook."""
    counts.append(bucket.index())
    return default_hooks.bf16_compress_hook(group, bucket)


def time_steps(model: Any, optimizer: Any, rows: torch.Tensor) -> float:  # noqa: ANN401
    """Return the ms of a step."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / STEPS


def measure_case(layers: int, wide: int, batch: int, device: torch.device) -> dict[str, Any]:
    """Return what a step takes with the hook and without, in turns, and that of a bucket."""
    rows = torch.randn(batch, wide, device=device)
    trainings = {
        name: make_training(layers, wide, device, hooked=name == "hooked")
        for name in ("plain", "hooked")
    }
    steps_ms: dict[str, list[float]] = {name: [] for name in trainings}
    for training in trainings.values():
        time_steps(*training, rows)
    for _ in range(ROUNDS):
        for name, training in trainings.items():
            steps_ms[name].append(time_steps(*training, rows))
    n_buckets = 1 + max(counts[-STEPS:])
    pairs = zip(steps_ms["plain"], steps_ms["hooked"], strict=True)
    added_us = statistics.median(1e3 * (hooked - plain) for plain, hooked in pairs)
    return {
        "layers": layers, "wide": wide, "batch": batch, "buckets": n_buckets,
        "step_ms": steps_ms, "added_us_a_bucket": added_us / n_buckets,
    }  # fmt: skip


def main() -> None:
    """Measure each case; the first rank writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl")
    cases: list[dict[str, Any]] = []
    for case in CASES:
        cases.append(measure_case(*case, device))
        if distributed.get_rank() == 0:
            device_words = {
                "torch": torch.__version__,
                "device": torch.cuda.get_device_name(device),
            }
            write_result({"machine": {**machine(), **device_words}, "cases": cases}, options.out)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
