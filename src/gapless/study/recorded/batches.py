"""What a process recorded of the fetches of a loader: rows that were kept, and sums of others."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.trace import Int64

Columns = Mapping[str, Int64]
_NONE: Final = {name: np.empty(0, np.int64) for name in wire.BATCH_SUM_FIELDS}


def kept(process: Process, loader: int) -> Columns:
    """Give the fetches for a loader that a process recorded one by one."""
    return _mine(process, process.batches.columns, loader)


def summed(process: Process, loader: int) -> Columns:
    """Give the sums of the other fetches: ``wire.BATCH_SUM_FIELDS``."""
    sums = process.batch_sums
    return _mine(process, _NONE if sums is None else sums.columns, loader)


def fetched(process: Process, loader: int) -> Columns:
    """Give both in one table, of which a row is one fetch or the sum of several.

    ``count`` says of how many, ``random`` how many of ``looked`` advanced a generator, ``detailed``
    how many were measured by stages, of which the stages are; −1 is what was not observed.
    """
    one, many = kept(process, loader), summed(process, loader)
    looked, wall = one["random"] >= 0, one["end"] - one["start"]
    alone = {
        **one,
        "count": np.ones(len(wall), np.int64),
        "wall": wall,
        "random": one["random"].clip(0),
        "looked": looked.astype(np.int64),
        "detailed_wall": wall,
        "detailed_samples": one["samples"],
    }
    return {name: np.concatenate((alone[name], many[name])) for name in wire.BATCH_SUM_FIELDS}


def skips(process: Process, loader: int) -> bool:
    """Tell whether a process recorded one fetch in several only.

    By their sequence: it begins at 0 in each iteration, and rises by one from fetch to fetch, but
    where some were summed in between.
    """
    columns, sums = kept(process, loader), summed(process, loader)
    order = np.argsort(columns["start"], kind="stable")
    nth, start = columns["sequence"][order], columns["start"][order]
    before = np.searchsorted(np.sort(sums["start"]), start)
    known = (before[1:] == before[:-1]) & (nth[1:] > nth[:-1])
    if (np.diff(nth)[known] > 1).any():
        return True
    begins = np.append([True], nth[1:] <= nth[:-1])[: len(nth)]
    return not len(sums["start"]) and bool((nth[begins] > 0).any())


def _mine(process: Process, columns: Columns, loader: int) -> Columns:
    """Select what is of a loader; all that a worker made is."""
    if process.role == "worker":
        return columns
    mine = columns["loader"] == loader
    return {name: column[mine] for name, column in columns.items()}
