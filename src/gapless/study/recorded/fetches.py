"""The fetches of one loader of one training process: who made which batch, in which stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import NO_LANE, Lane, overlap, union
from gapless.model.recording import Marks, Process
from gapless.model.trace import Int64
from gapless.study.recorded.batches import Columns, kept, skips, summed

_OTHER: Final = wire.STAGES.index("other")
_WORKER_BITS: Final = 16  # of the value of a DISPATCH mark
_LAST: Final = np.iinfo(np.int64).max
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
    summed: Mapping[int, Lane]  # by slot: stretches in which fetches were summed
    cpu: Int64  # on a processor; −1: not observed
    run_queue: Int64  # ready, and waiting for one; −1: not observed

    def __len__(self) -> int:
        """Count the fetches."""
        return len(self.start)


def fetches(loader: int, own: Process, workers: Sequence[Process], turns: Int64) -> Fetches:
    """Gather the fetches of a loader; ``turns`` are the starts of its iterations.

    A fetch whose stages were not measured is parted as the measured ones of the loader together.
    """
    made = [own, *(one for one in workers if one.loader == loader)]
    parts = [kept(one, loader) for one in made]
    sums = [summed(one, loader) for one in made]
    number = np.concatenate([np.full(len(part["start"]), at) for at, part in enumerate(parts)])
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["start"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    number = number[order].astype(np.int64)
    start = columns["start"]
    first = np.array([int(one["start"].min(initial=_LAST)) for one in sums])
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
        sampled=any(skips(one, loader) for one in made),
        summed=_by_slot(sums),
        cpu=columns["cpu"],
        run_queue=columns["run_queue"],
    )


def _by_slot(sums: Sequence[Mapping[str, Int64]]) -> dict[int, Lane]:
    """Give for each slot the stretches in which fetches were summed."""
    worker, start, end = (
        np.concatenate([one[name] for one in sums]) for name in ("worker", "start", "end")
    )
    slots: list[int] = np.unique(worker).tolist()
    return {slot: union(start[worker == slot], end[worker == slot]) for slot in slots}


def iterations(turns: Int64, at: Int64) -> Int64:
    """Give the iteration that each instant lies in; before the first one it is the first."""
    return np.maximum(np.searchsorted(turns, at, side="right") - 1, 0)


def _weights(columns: Columns) -> Int64:
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


def made_by_workers(
    found: Fetches, marks: Marks, turns: Int64, asked: tuple[Int64, Int64], gaps: Lane = NO_LANE
) -> Made:
    """Match waits, (iteration, position), with the fetches of workers by what was dispatched.

    The n-th index list that a worker was given in an iteration is its n-th fetch. ``marks`` are the
    DISPATCH marks of the loader; those in ``gaps`` were summed. After these it is counted on only
    where workers were given their lists in turn.
    """
    position, worker = marks.value >> _WORKER_BITS, marks.value & ((1 << _WORKER_BITS) - 1)
    turn = iterations(turns, marks.start)
    order = np.lexsort((marks.start, worker, turn))
    turn, worker, position = turn[order], worker[order], position[order]
    group = (turn << _WORKER_BITS) | worker
    new = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))[: len(group)]
    nth = np.arange(len(group)) - np.repeat(new, np.diff(np.append(new, len(group))))
    after = np.searchsorted(gaps.end, marks.start[order], side="right")
    after = after > np.searchsorted(gaps.end, np.append(turns, [0])[turn])
    workers = int(worker.max(initial=0)) + 1
    in_turn = bool((worker == position % workers).all())
    nth = np.where(after, position // workers if in_turn else -1, nth)
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


def certain(made: Made, found: Fetches, ask: Int64, got: Int64) -> Made:
    """Leave out the matches of waits in which their worker made what was summed.

    And those that cannot be: of a fetch that began before it was told of, or ended too late.
    """
    fetch = made.fetch.copy()
    known = np.flatnonzero(fetch >= 0)
    start, end = found.start[fetch[known]], found.end[fetch[known]]
    wrong = (start < made.dispatched[known]) | (end > got[known])
    for slot, lane in found.summed.items():
        within = overlap(lane, np.minimum(ask[known], end), end) > 0
        wrong |= (found.worker[fetch[known]] == slot) & within
    fetch[known[wrong]] = -1
    return Made(fetch, made.dispatched)


def _look_up(keys: Int64, values: Int64, wanted: Int64) -> Int64:
    """Give the value of each wanted key, −1 where there is none; of equal keys the first."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    return np.where(keys[order][at] == wanted, values[order][at], -1)
