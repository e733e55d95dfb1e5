"""What it takes to start a Python process, to import torch, to start and end a loader's worker."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import NS, Measurement, make_figure, run_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import ProbeConditions, ProbeFigure

_PATIENCE_S = 60.0
_MAX_STARTS = 12


class NumberDataset:
    """A data set of two numbers."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return index


def measure_python(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around ``python -c pass``, from the start of the process to its end."""
    series = run_rounds({0: partial(_time_python, "pass")}, conditions.until, _MAX_STARTS)[0]
    yield make_figure("process.python", series.values, series.spent_s)


def measure_import(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around ``import torch`` in the probe itself, once.

    Its files come from memory if the training, or another, has read them not long ago.
    """
    yield make_figure("process.import_torch", [conditions.import_s * 1e9], conditions.import_s)


def _time_python(code: str) -> float:
    began = time.perf_counter_ns()
    subprocess.run(  # noqa: S603 - the interpreter that runs this
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_PATIENCE_S,
        check=True,
    )
    return time.perf_counter_ns() - began


def measure_fork(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock: process.fork_worker from ``iter(loader)`` to the first batch of its one worker.

    process.fork: ``iter(loader)`` alone, which starts the worker and waits for nothing;
    process.end_worker: until the worker has ended, once the iterator is shut down. The worker is
    forked from this process, which has torch (and on a GPU, CUDA) loaded, and yields numbers.
    """
    names = ("process.fork_worker", "process.fork", "process.end_worker")
    values: dict[str, list[float]] = {name: [] for name in names}
    began = time.perf_counter()
    for turn in range(_MAX_STARTS):
        if turn > 1 and time.monotonic() > conditions.until:
            break
        for name, value in zip(names, _time_worker("fork")):
            if turn:  # the first is not counted
                values[name].append(value)
    spent = time.perf_counter() - began
    for name in names:
        yield make_figure(name, values[name], spent)


def measure_spawn(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock from ``iter(loader)`` to the first batch of its one worker, which is spawned.

    The worker imports torch, and of the training's own nothing.
    """
    values: list[float] = []
    began = time.perf_counter()
    while not values or (time.monotonic() < conditions.until and len(values) < _MAX_STARTS):
        values.append(_time_worker("spawn")[0])
    yield make_figure("process.spawn_worker", values, time.perf_counter() - began)


def _time_worker(method: str) -> tuple[float, float, float]:
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        NumberDataset(),  # type: ignore[arg-type]
        num_workers=1,
        multiprocessing_context=method,
        timeout=_PATIENCE_S,
    )
    began_ns = time.perf_counter_ns()
    batches: Any = iter(loader)
    started_ns = time.perf_counter_ns()
    next(batches)
    first_batch_ns = time.perf_counter_ns()
    next(batches)
    idle_ns = time.perf_counter_ns()
    batches._shutdown_workers()  # noqa: SLF001
    return first_batch_ns - began_ns, started_ns - began_ns, time.perf_counter_ns() - idle_ns


_FORK = ("process.fork_worker", "process.fork", "process.end_worker")
QUICK = (
    Measurement("processes", measure_python, {"process.python": NS}, 0.3, torch=False),
    Measurement("processes", measure_fork, dict.fromkeys(_FORK, NS), 0.5),
    Measurement("processes", measure_import, {"process.import_torch": NS}, 0.1),
)
SLOW = (  # comes last
    Measurement("processes", measure_spawn, {"process.spawn_worker": NS}, 0.1, imports=True),
)
