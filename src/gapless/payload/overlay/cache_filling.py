"""Fill a cache before a trial measures: what a training has from its second epoch on.

Processes of their own make every sample once, as workers do, so that the training draws no other
random numbers and its loader gives what it gives anyway.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from typing import Any, Callable, NamedTuple

MAX_S = 60.0
_GRACE_S = 5.0  # for a sample that is being made


class Filling(NamedTuple):
    """What was filled: samples that were made, of all, those kept, and how long it took."""

    n_made: int
    n_kept: int
    samples: int
    seconds: float

    @property
    def is_whole(self) -> bool:
        """Return whether every sample was made."""
        return self.n_made >= self.samples

    @property
    def refusal(self) -> str:
        """Return why a trial cannot show what is kept: not all of it was made in time."""
        why = f"a trial cannot show it: {self.n_made} of {self.samples} samples were made in "
        return f"{why}{self.seconds:.0f} s"

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"warm: {self.n_made} of {self.samples} samples were made in {self.seconds:.0f} s "
            f"before steps were measured, {self.n_kept} kept; the first epoch is as slow as ever"
        )


def fill_cache(loader: Any, store: Any, begin: Callable[[], None] | None = None) -> Filling:
    """Make each sample of a loader once; ``begin``: called first in each process."""
    n_workers, n_samples = max(1, loader.num_workers), len(loader.dataset)
    context: Any = multiprocessing.get_context("fork")
    counts = context.RawArray("q", 2 * n_workers)
    began = time.monotonic()
    deadline = began + MAX_S
    processes = [
        context.Process(
            target=_fill_share,
            args=((loader, store, begin), (worker, n_workers), counts, deadline),
            daemon=True,
        )
        for worker in range(n_workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(max(0.0, deadline + _GRACE_S - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    seconds = time.monotonic() - began
    return Filling(sum(counts[::2]), sum(counts[1::2]), n_samples, seconds)


def _fill_share(task: tuple[Any, Any, Any], turn: tuple[int, int], counts: Any, end: float) -> None:
    """Make the samples of one process, in turn."""
    loader, store, begin = task
    worker, n_workers = turn
    module, torch = sys.modules["torch.utils.data._utils.worker"], sys.modules["torch"]
    torch.set_num_threads(1)
    if loader.num_workers:
        module._worker_info = module.WorkerInfo(
            id=worker, num_workers=n_workers, seed=worker, dataset=loader.dataset
        )
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(worker)
    if begin is not None:
        begin()
    fetch = getattr(loader.dataset, "__getitems__", None)
    for index in range(worker, len(loader.dataset), n_workers):
        if time.monotonic() > end or store.is_ended():
            break
        if fetch is None:
            _ = loader.dataset[index]
        else:
            fetch([index])
        counts[2 * worker] += 1
        counts[2 * worker + 1] = store.n_kept
