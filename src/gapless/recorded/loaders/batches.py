"""What a process recorded of a loader's fetches: rows that were kept, and sums of others."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.trace import Int64
from gapless.recorded.training.processes import Training

Columns = Mapping[str, Int64]
_NO_SUMS: Final = {name: np.empty(0, np.int64) for name in wire.BATCH_SUM_FIELDS}


def recorded_fetches(process: Process, loader: int) -> Columns:
    """Return the fetches for a loader that a process recorded one by one."""
    return _select_loader(process, process.batches.columns, loader)


def summed_fetches(process: Process, loader: int) -> Columns:
    """Return the sums of the other fetches: ``wire.BATCH_SUM_FIELDS``."""
    sums = process.batch_sums
    return _select_loader(process, _NO_SUMS if sums is None else sums.columns, loader)


def fetch_table(process: Process, loader: int) -> Columns:
    """Return both in one table, in which a row is one fetch or the sum of several.

    ``count`` is their number, ``random`` is how many of ``looked`` advanced a generator,
    ``detailed`` is how many were measured by stages; −1 is what was not observed.
    """
    fetches, sums = recorded_fetches(process, loader), summed_fetches(process, loader)
    has_random, wall_ns = fetches["random"] >= 0, fetches["end"] - fetches["start"]
    single_rows = {
        **fetches,
        "count": np.ones(len(wall_ns), np.int64),
        "wall": wall_ns,
        "random": fetches["random"].clip(0),
        "looked": has_random.astype(np.int64),
        "detailed_wall": wall_ns,
        "detailed_samples": fetches["samples"],
    }
    return {name: np.concatenate((single_rows[name], sums[name])) for name in wire.BATCH_SUM_FIELDS}


def gather_fetches(training: Training, numbers: Sequence[int]) -> Columns:
    """Return the fetches for some loaders, of the training process and of workers."""
    tables = [fetch_table(training.process, number) for number in numbers]
    tables += [
        fetch_table(worker, worker.loader)
        for worker in training.workers
        if worker.loader is not None and worker.loader in numbers
    ]
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def is_thinned(process: Process, loader: int) -> bool:
    """Return whether a process recorded only one fetch in several.

    Known by their sequence: it begins at 0 in each iteration, and rises by one from fetch to fetch,
    except where some were summed in between.
    """
    columns, sums = recorded_fetches(process, loader), summed_fetches(process, loader)
    by_start = np.argsort(columns["start"], kind="stable")
    sequence, start = columns["sequence"][by_start], columns["start"][by_start]
    sums_before = np.searchsorted(np.sort(sums["start"]), start)
    is_adjacent = (sums_before[1:] == sums_before[:-1]) & (sequence[1:] > sequence[:-1])
    if (np.diff(sequence)[is_adjacent] > 1).any():
        return True
    is_first = np.append([True], sequence[1:] <= sequence[:-1])[: len(sequence)]
    return not len(sums["start"]) and bool((sequence[is_first] > 0).any())


def _select_loader(process: Process, columns: Columns, loader: int) -> Columns:
    """Select what belongs to a loader; everything that a worker made does."""
    if process.role == "worker":
        return columns
    is_loader = columns["loader"] == loader
    return {name: column[is_loader] for name, column in columns.items()}
