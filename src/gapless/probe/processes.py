"""What it takes to start and to end a worker of a loader."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .figures import NS, Measurement, make_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import ProbeConditions, ProbeFigure

_PATIENCE_S = 60.0
_MAX_STARTS = 12
_NAMES = ("process.fork", "process.end_worker")


class NumberDataset:
    """A data set of two numbers."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return index


def measure_fork(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock: process.fork around ``iter(loader)``, which starts a worker and awaits nothing.

    process.end_worker: until the worker has ended, once the iterator is shut down. The worker is
    forked from this process, which has torch (and on a GPU, CUDA) loaded, and yields numbers.
    """
    values: dict[str, list[float]] = {name: [] for name in _NAMES}
    began = time.perf_counter()
    for turn in range(_MAX_STARTS):
        if turn > 1 and time.monotonic() > conditions.until:
            break
        for name, value in zip(_NAMES, _time_worker()):
            if turn:  # the first is not counted
                values[name].append(value)
    spent = time.perf_counter() - began
    for name in _NAMES:
        yield make_figure(name, values[name], spent)


def _time_worker() -> tuple[float, float]:
    """Return the ns that starting and ending a worker took."""
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        NumberDataset(),  # type: ignore[arg-type]
        num_workers=1,
        multiprocessing_context="fork",
        timeout=_PATIENCE_S,
    )
    began_ns = time.perf_counter_ns()
    batches: Any = iter(loader)
    started_ns = time.perf_counter_ns()
    next(batches)
    next(batches)
    idle_ns = time.perf_counter_ns()
    batches._shutdown_workers()  # noqa: SLF001
    return started_ns - began_ns, time.perf_counter_ns() - idle_ns


MEASUREMENTS = (Measurement("processes", measure_fork, dict.fromkeys(_NAMES, NS), 0.5),)
