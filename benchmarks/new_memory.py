"""What batches in new shared memory cost the training itself, and in memory that is used again.

    PYTHONPATH=src python -m benchmarks.new_memory     # benchmarks/results/new_memory.json

A worker sends batches of some sizes; the training, which waits for each as if it computed, takes
it, reads a byte of each page, and lets go of it: processor time of its thread for each, the median.
"""

import multiprocessing.queues
import pickle
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.machine import machine, write_result
from gapless.parts import recycle_batches

_BATCHES: Final = 80
_SKIPPED: Final = 10  # until memory is used again
_SIZES: Final = (1 << 20, 4 << 20, 16 << 20)  # bytes of a batch
_WAIT_S: Final = 0.01
_ROUNDS: Final = 3
_RESULT: Final = Path(__file__).parent / "results" / "new_memory.json"


class _Rows(Dataset[torch.Tensor]):
    def __init__(self, size: int) -> None:
        self.row = torch.zeros(size // 4 // 16)

    def __len__(self) -> int:
        return 16 * _BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.row


def _measure(size: int, *, is_recycled: bool) -> dict[str, list[float]]:
    """Return the µs of taking, touching and letting go, of each batch."""
    loader: Any = DataLoader(_Rows(size), 16, num_workers=1, prefetch_factor=1)
    loader = recycle_batches(loader) if is_recycled else loader
    figures: dict[str, list[float]] = defaultdict(list)

    def load(data: Any) -> Any:  # noqa: ANN401
        begin = time.thread_time()
        batch = pickle.loads(data)  # noqa: S301 - of our own worker
        figures["take"].append((time.thread_time() - begin) * 1e6)
        return batch

    pickler: Any = multiprocessing.queues._ForkingPickler  # type: ignore[attr-defined]  # noqa: SLF001
    before, pickler.loads = pickler.loads, staticmethod(load)
    for batch in loader:
        time.sleep(_WAIT_S)
        begin = time.thread_time()
        batch.view(torch.uint8).view(-1)[::4096].clone()
        touched = time.thread_time()
        del batch
        figures["touch"].append((touched - begin) * 1e6)
        figures["let_go"].append((time.thread_time() - touched) * 1e6)
    pickler.loads = before
    return figures


def main() -> int:
    """Measure and write the result."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for size in _SIZES:
        for is_recycled in (False, True):
            merged: dict[str, list[float]] = defaultdict(list)
            for _ in range(_ROUNDS):
                for name, values in _measure(size, is_recycled=is_recycled).items():
                    merged[name] += values[_SKIPPED:]
            medians = {name: round(statistics.median(values), 1) for name, values in merged.items()}
            rows.append({"bytes": size, "recycled": is_recycled, **medians})
    print(write_result({"machine": machine(), "us_a_batch": rows}, _RESULT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
