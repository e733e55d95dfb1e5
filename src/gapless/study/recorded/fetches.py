"""The fetches of one loader of one training process: who made which batch, in which stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gapless import wire
from gapless.model.recording import Batches, Marks, Process
from gapless.model.trace import Int64

_OTHER = wire.STAGES.index("other")
_WORKER_BITS = 16  # of the value of a DISPATCH mark
_TURN, _SLOT = 44, 28  # where iteration and worker stand in a key, above the number of a fetch


@dataclass(frozen=True)
class Fetches:
    """Fetches in columns, by start."""

    worker: Int64  # its slot; −1: the training process
    process: Int64  # a number for each process: a slot may have several, one after another
    iteration: Int64
    nth: Int64  # of the fetches of this worker in this iteration
    start: Int64
    end: Int64
    first: Int64  # when the process began its first fetch
    stages: Int64  # [fetch, stage]: weights of the stages; all 0: not known
    sampled: bool  # short fetches are recorded one in several: a worker without one may be busy

    def __len__(self) -> int:
        """Count the fetches."""
        return len(self.start)


def fetches(loader: int, own: Process, workers: Sequence[Process], turns: Int64) -> Fetches:
    """Gather the fetches of a loader; ``turns`` are the starts of its iterations.

    A fetch whose stages were not measured is parted as the measured ones of the loader together.
    """
    parts = [_of(own.batches, own.batches.columns["loader"] == loader)]
    parts += [
        _of(one.batches, np.ones(len(one.batches), bool)) for one in workers if one.loader == loader
    ]
    number = np.concatenate([np.full(len(part["start"]), at) for at, part in enumerate(parts)])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["start"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    number = number[order].astype(np.int64)
    start = columns["start"]
    first = np.full(len(parts), np.iinfo(np.int64).max)
    np.minimum.at(first, number, start)
    return Fetches(
        worker=columns["worker"],
        process=number,
        iteration=iterations(turns, start),
        nth=columns["sequence"],
        start=start,
        end=columns["end"],
        first=first[number],
        stages=_weights(columns),
        sampled=any(fetched(part) > len(part["start"]) for part in parts),
    )


def fetched(columns: Mapping[str, Int64]) -> int:
    """Count the fetches of one process, those that were not recorded too: by their sequence."""
    nth = columns["sequence"][np.argsort(columns["start"], kind="stable")]
    last = np.append(nth[1:] <= nth[:-1], [True])[: len(nth)]
    return int((nth[last] + 1).sum())


def _of(batches: Batches, rows: npt.NDArray[np.bool_]) -> dict[str, Int64]:
    return {name: column[rows] for name, column in batches.columns.items()}


def iterations(turns: Int64, at: Int64) -> Int64:
    """Give the iteration that each instant lies in; before the first one it is the first."""
    return np.maximum(np.searchsorted(turns, at, side="right") - 1, 0)


def _weights(columns: dict[str, Int64]) -> Int64:
    walls = np.stack([columns[f"{stage}_wall"] for stage in wire.STAGES], axis=1)
    detailed = columns["detailed"] == 1
    walls = np.where(detailed[:, None], np.maximum(walls, 0), 0)
    rest = columns["end"] - columns["start"] - walls.sum(axis=1)
    walls[:, _OTHER] += np.where(detailed, np.maximum(rest, 0), 0)
    return np.where(detailed[:, None], walls, walls.sum(axis=0))


@dataclass(frozen=True)
class Made:
    """For each wait the fetch of its batch (−1: not known), and when that was dispatched (−1)."""

    fetch: Int64
    dispatched: Int64


def made_in_process(found: Fetches, ask: Int64, got: Int64) -> Made:
    """Match waits with the fetches that ran within them; nothing is dispatched before it runs."""
    rows = np.flatnonzero(found.worker < 0)
    at = np.searchsorted(found.start[rows], ask)
    inside = at < len(rows)
    near = rows[np.minimum(at, len(rows) - 1)] if len(rows) else np.zeros(len(ask), np.int64)
    if len(rows):
        inside &= found.start[near] < got
    fetch = np.where(inside, near, -1)
    return Made(fetch, np.where(inside, found.start[near] if len(rows) else -1, -1))


def made_by_workers(found: Fetches, marks: Marks, turns: Int64, asked: tuple[Int64, Int64]) -> Made:
    """Match waits, (iteration, position), with the fetches of workers by what was dispatched.

    The n-th index list that a worker was given in an iteration is its n-th fetch. ``marks`` are the
    DISPATCH marks of the loader.
    """
    position, worker = marks.value >> _WORKER_BITS, marks.value & ((1 << _WORKER_BITS) - 1)
    turn = iterations(turns, marks.start)
    order = np.lexsort((marks.start, worker, turn))
    turn, worker, position = turn[order], worker[order], position[order]
    group = (turn << _WORKER_BITS) | worker
    new = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))[: len(group)]
    nth = np.arange(len(group)) - np.repeat(new, np.diff(np.append(new, len(group))))
    fetch = _look_up(
        (found.iteration << _TURN) | (found.worker << _SLOT) | found.nth,
        np.where(found.worker >= 0, np.arange(len(found)), -1),
        (turn << _TURN) | (worker << _SLOT) | nth,
    )
    wanted = (asked[0] << _TURN) | asked[1]
    given = (turn << _TURN) | position
    return Made(
        _look_up(given, fetch, wanted),
        _look_up(given, marks.start[order], wanted),
    )


def _look_up(keys: Int64, values: Int64, wanted: Int64) -> Int64:
    """Give the value of each wanted key, −1 where there is none; of equal keys the first."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    return np.where(keys[order][at] == wanted, values[order][at], -1)
