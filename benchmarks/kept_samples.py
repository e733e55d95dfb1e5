"""What a sample costs at least, and one that sample-cache keeps: processor time on this machine.

    python -m benchmarks.kept_samples     # benchmarks/results/kept_samples.json

Code of a data set that takes no longer than indexing two tensors is not slow; and what takes no
longer than taking a sample out of the cache is not worth keeping.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.machine import machine, write_result
from gapless.parts.caches.sample_cache import attach_cache

_MAX_SAMPLES: Final = 10_000
_MAX_NUMBERS: Final = 120_000_000  # of all samples
_BATCH: Final = 50
_ROUNDS: Final = 5
_SIZES: Final = (16, 784, 12_288, 65_536)  # numbers of a sample, 4 bytes each
_RESULT: Final = Path(__file__).parent / "results" / "kept_samples.json"


class _Pairs(Dataset[Any]):
    def __init__(self, size: int) -> None:
        count = min(_MAX_SAMPLES, _MAX_NUMBERS // size // 2)
        self.pairs = [(torch.rand(size), index) for index in range(count)]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pairs[index]


def _least_us(count: int, call: Callable[[], object]) -> float:
    """Return the least time of a call, in µs of the processor a sample."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        begin = time.process_time()
        call()
        rounds.append(time.process_time() - begin)
    return round(min(rounds) / count * 1e6, 2)


def _measure(size: int) -> dict[str, float]:
    """Return µs a sample: by index, in batches, and in batches of kept samples."""
    pairs = _Pairs(size)
    count = len(pairs)
    rows = TensorDataset(torch.rand(count, size), torch.zeros(count))
    loader = DataLoader(pairs, batch_size=_BATCH)
    listed_us = _least_us(count, lambda: [pairs[index] for index in range(count)])
    plain_us = _least_us(count, lambda: [None for _ in loader])
    attach_cache(loader, None)
    for _ in loader:
        pass
    kept_us = _least_us(count, lambda: [None for _ in loader])
    return {
        "numbers": size,
        "listed": listed_us,
        "by_index": _least_us(count, lambda: [rows[index] for index in range(count)]),
        "batched": plain_us,
        "batched_kept": kept_us,
        "kept": round(kept_us - plain_us, 2),
    }


def main() -> int:
    """Measure and write the result."""
    torch.set_num_threads(1)
    rows = [_measure(size) for size in _SIZES]
    print(write_result({"machine": machine(), "us_a_sample": rows}, _RESULT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
