"""What it takes to start a Python process, to import torch, to start and end a loader's worker."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import NS, Measurement, figure, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .figures import Figure, Room

_PATIENCE_S = 60.0
_MOST = 12


class Numbers:
    """A data set of two numbers."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return index


def python(room: Room) -> Iterator[Figure]:
    """Host clock around ``python -c pass``, from the start of the process to its end."""
    series = rounds({0: partial(_took, "pass")}, room.until, _MOST)[0]
    yield figure("process.python", series.values, series.spent_s)


def importing(room: Room) -> Iterator[Figure]:
    """Host clock around ``import torch`` in the probe itself, once.

    Its files come from memory if the training, or another, has read them not long ago.
    """
    yield figure("process.import_torch", [room.import_s * 1e9], room.import_s)


def _took(text: str) -> float:
    began = time.perf_counter_ns()
    subprocess.run(  # noqa: S603 - the interpreter that runs this
        [sys.executable, "-c", text],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_PATIENCE_S,
        check=True,
    )
    return time.perf_counter_ns() - began


def forked(room: Room) -> Iterator[Figure]:
    """Host clock: process.fork_worker from ``iter(loader)`` to the first batch of its one worker.

    process.fork: ``iter(loader)`` alone, which starts the worker and waits for nothing;
    process.end_worker: until the worker has ended, once the iterator is shut down. The worker is
    forked from this process, which has torch (and on a GPU, CUDA) loaded, and yields numbers.
    """
    names = ("process.fork_worker", "process.fork", "process.end_worker")
    values: dict[str, list[float]] = {name: [] for name in names}
    began = time.perf_counter()
    for turn in range(_MOST):
        if turn > 1 and time.monotonic() > room.until:
            break
        for name, value in zip(names, _worker("fork")):
            if turn:  # the first is not counted
                values[name].append(value)
    spent = time.perf_counter() - began
    for name in names:
        yield figure(name, values[name], spent)


def spawned(room: Room) -> Iterator[Figure]:
    """Host clock from ``iter(loader)`` to the first batch of its one worker, which is spawned.

    The worker imports torch, and of the training's own nothing.
    """
    values: list[float] = []
    began = time.perf_counter()
    while not values or (time.monotonic() < room.until and len(values) < _MOST):
        values.append(_worker("spawn")[0])
    yield figure("process.spawn_worker", values, time.perf_counter() - began)


def _worker(method: str) -> tuple[float, float, float]:
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        Numbers(),  # type: ignore[arg-type]
        num_workers=1,
        multiprocessing_context=method,
        timeout=_PATIENCE_S,
    )
    began = time.perf_counter_ns()
    batches: Any = iter(loader)
    started = time.perf_counter_ns()
    next(batches)
    first = time.perf_counter_ns()
    next(batches)
    idle = time.perf_counter_ns()
    batches._shutdown_workers()  # noqa: SLF001
    return first - began, started - began, time.perf_counter_ns() - idle


_FORK = ("process.fork_worker", "process.fork", "process.end_worker")
QUICK = (
    Measurement("processes", python, {"process.python": NS}, 0.3, torch=False),
    Measurement("processes", forked, dict.fromkeys(_FORK, NS), 0.5),
    Measurement("processes", importing, {"process.import_torch": NS}, 0.1),
)
SLOW = (  # comes last
    Measurement("processes", spawned, {"process.spawn_worker": NS}, 0.1, imports=True),
)
