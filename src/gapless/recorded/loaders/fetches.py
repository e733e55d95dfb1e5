"""The fetches of one loader of one training process: who made which batch, in which stages."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import NO_LANE, Lane, overlap, union
from gapless.model.recording import Marks, Process
from gapless.model.trace import Int64
from gapless.recorded.loaders.batches import Columns, is_thinned, recorded_fetches, summed_fetches

_OTHER_STAGE: Final = wire.STAGES.index("other")
_WORKER_BITS: Final = 16  # of the value of a DISPATCH mark
_NEVER_NS: Final = np.iinfo(np.int64).max
_ITERATION_SHIFT, _SLOT_SHIFT = (
    44,
    28,
)  # the bits of iteration and worker in a key, above the number of a fetch


class Fetches(Struct, frozen=True):
    """Fetches in columns, by start."""

    worker: Int64  # its slot; −1: the training process
    process: Int64  # a number for each process: a slot may have several, one after another
    iteration: Int64
    sequence: Int64  # of the fetches of this worker in this iteration
    start: Int64
    end: Int64
    first_start: Int64  # when the process began its first fetch
    stages: Int64  # [fetch, stage]: weights of the stages; all 0: not known
    sampled: bool  # only one in several short fetches is recorded: a worker without one may be busy
    summed_lanes: Mapping[int, Lane]  # by slot: stretches in which fetches were summed
    cpu: Int64  # on a processor; −1: not observed
    run_queue: Int64  # ready, and waiting for one; −1: not observed

    def __len__(self) -> int:
        """Count the fetches."""
        return len(self.start)


def gather_fetches(
    loader: int, process: Process, workers: Sequence[Process], iteration_starts: Int64
) -> Fetches:
    """Gather the fetches of a loader, given the starts of its iterations.

    A fetch whose stages were not measured is split like the measured ones of the loader
    together.
    """
    makers = [process, *(worker for worker in workers if worker.loader == loader)]
    tables = [recorded_fetches(maker, loader) for maker in makers]
    sums = [summed_fetches(maker, loader) for maker in makers]
    number = np.concatenate(
        [np.full(len(table["start"]), index) for index, table in enumerate(tables)]
    )
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    order = np.argsort(columns["start"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    number = number[order].astype(np.int64)
    start = columns["start"]
    first_starts = np.array([int(table["start"].min(initial=_NEVER_NS)) for table in sums])
    np.minimum.at(first_starts, number, start)
    return Fetches(
        worker=columns["worker"],
        process=number,
        iteration=find_iterations(iteration_starts, start),
        sequence=columns["sequence"],
        start=start,
        end=columns["end"],
        first_start=first_starts[number],
        stages=_weights(columns),
        sampled=any(is_thinned(maker, loader) for maker in makers),
        summed_lanes=_by_slot(sums),
        cpu=columns["cpu"],
        run_queue=columns["run_queue"],
    )


def _by_slot(sums: Sequence[Mapping[str, Int64]]) -> dict[int, Lane]:
    """Return for each slot the stretches in which fetches were summed."""
    worker, start, end = (
        np.concatenate([table[name] for table in sums]) for name in ("worker", "start", "end")
    )
    slots: list[int] = np.unique(worker).tolist()
    return {slot: union(start[worker == slot], end[worker == slot]) for slot in slots}


def find_iterations(iteration_starts: Int64, times: Int64) -> Int64:
    """Return the iteration that each instant lies in; before the first one it is the first."""
    return np.maximum(np.searchsorted(iteration_starts, times, side="right") - 1, 0)


def _weights(columns: Columns) -> Int64:
    walls_ns = np.stack([columns[f"{stage}_wall"] for stage in wire.STAGES], axis=1)
    detailed = columns["detailed"] == 1
    walls_ns = np.where(detailed[:, None], np.maximum(walls_ns, 0), 0)
    unstaged_ns = columns["end"] - columns["start"] - walls_ns.sum(axis=1)
    walls_ns[:, _OTHER_STAGE] += np.where(detailed, np.maximum(unstaged_ns, 0), 0)
    return np.where(detailed[:, None], walls_ns, walls_ns.sum(axis=0))


class FetchMatches(Struct, frozen=True):
    """For each wait the fetch of its batch, and when that was dispatched (−1: not known)."""

    fetch: Int64
    dispatched: Int64


def match_in_process(fetches: Fetches, ask_ns: Int64, got_ns: Int64) -> FetchMatches:
    """Match waits with the fetches that ran within them; nothing is dispatched before it runs."""
    rows = np.flatnonzero(fetches.worker < 0)
    index = np.searchsorted(fetches.start[rows], ask_ns)
    is_inside = index < len(rows)
    nearest = (
        rows[np.minimum(index, len(rows) - 1)] if len(rows) else np.zeros(len(ask_ns), np.int64)
    )
    if len(rows):
        is_inside &= fetches.start[nearest] < got_ns
    fetch = np.where(is_inside, nearest, -1)
    return FetchMatches(fetch, np.where(is_inside, fetches.start[nearest] if len(rows) else -1, -1))


def match_workers(
    fetches: Fetches,
    marks: Marks,
    iteration_starts: Int64,
    waits: tuple[Int64, Int64],
    gaps: Lane = NO_LANE,
) -> FetchMatches:
    """Match waits, (iteration, position), with the fetches of workers by what was dispatched.

    The n-th index list that a worker was given in an iteration is its n-th fetch. ``marks`` are the
    DISPATCH marks of the loader; those in ``gaps`` were summed. After these the count continues
    only where workers were given their lists in turn.
    """
    position, worker = marks.value >> _WORKER_BITS, marks.value & ((1 << _WORKER_BITS) - 1)
    iteration = find_iterations(iteration_starts, marks.start)
    order = np.lexsort((marks.start, worker, iteration))
    iteration, worker, position = iteration[order], worker[order], position[order]
    list_key = (iteration << _WORKER_BITS) | worker
    group_starts = np.flatnonzero(np.concatenate(([True], list_key[1:] != list_key[:-1])))[
        : len(list_key)
    ]
    sequence = np.arange(len(list_key)) - np.repeat(
        group_starts, np.diff(np.append(group_starts, len(list_key)))
    )
    is_after_gap = np.searchsorted(gaps.end, marks.start[order], side="right")
    is_after_gap = is_after_gap > np.searchsorted(
        gaps.end, np.append(iteration_starts, [0])[iteration]
    )
    workers = int(worker.max(initial=0)) + 1
    in_turn = bool((worker == position % workers).all())
    sequence = np.where(is_after_gap, position // workers if in_turn else -1, sequence)
    fetch = _look_up(
        (fetches.iteration << _ITERATION_SHIFT)
        | (fetches.worker << _SLOT_SHIFT)
        | fetches.sequence,
        np.where(fetches.worker >= 0, np.arange(len(fetches)), -1),
        (iteration << _ITERATION_SHIFT) | (worker << _SLOT_SHIFT) | sequence,
    )
    wait_keys = (waits[0] << _ITERATION_SHIFT) | waits[1]
    dispatch_keys = (iteration << _ITERATION_SHIFT) | position
    return FetchMatches(
        _look_up(dispatch_keys, fetch, wait_keys),
        _look_up(dispatch_keys, marks.start[order], wait_keys),
    )


def drop_uncertain(
    matches: FetchMatches, fetches: Fetches, ask_ns: Int64, got_ns: Int64
) -> FetchMatches:
    """Leave out the matches of waits during which their worker's fetches were summed.

    Impossible ones, too: a fetch that began before it was dispatched, or ended too late.
    """
    fetch = matches.fetch.copy()
    matched = np.flatnonzero(fetch >= 0)
    start, end = fetches.start[fetch[matched]], fetches.end[fetch[matched]]
    is_wrong = (start < matches.dispatched[matched]) | (end > got_ns[matched])
    for slot, lane in fetches.summed_lanes.items():
        is_summed = overlap(lane, np.minimum(ask_ns[matched], end), end) > 0
        is_wrong |= (fetches.worker[fetch[matched]] == slot) & is_summed
    fetch[matched[is_wrong]] = -1
    return FetchMatches(fetch, matches.dispatched)


def _look_up(keys: Int64, values: Int64, wanted: Int64) -> Int64:
    """Return the value of each wanted key, −1 where there is none; of equal keys the first."""
    if not len(keys):
        return np.full(len(wanted), -1)
    order = np.argsort(keys, kind="stable")
    position = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    return np.where(keys[order][position] == wanted, values[order][position], -1)
