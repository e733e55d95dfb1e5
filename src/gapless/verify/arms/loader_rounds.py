"""The loader that feeds the steps of an arm: its rounds, its first batch, its epoch turns."""

from collections.abc import Hashable, Mapping

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import union
from gapless.model.recording import Marks
from gapless.model.trace import Int64
from gapless.recorded.loaders.batches import fetch_table
from gapless.recorded.training.edges import Bool, fact_of, loader_kind
from gapless.recorded.training.processes import Training

_NO_BATCH = wire.EXHAUSTED | wire.RAISED
_SIZE = ("samples", "count")


class ArmLoader(Struct, frozen=True):
    """What the loader of a training's steps did."""

    round_steps: int  # steps that a round of workers × prefetch feeds; 1: it has no workers
    samples: float | None  # a step
    epoch: int | None  # steps
    first_batch_ns: int | None  # the first batch, from the iterator's start
    turns_ns: Int64  # for each step after the first, what an epoch turn took in it


def read_arm_loader(training: Training, ends: Int64) -> ArmLoader:
    """Return what feeds the steps; a training without a loader has rounds of one step."""
    turns_ns = np.zeros(max(0, len(ends) - 1), np.int64)
    kind = _find_feeding_kind(training, ends)
    if kind is None:
        return ArmLoader(1, None, None, None, turns_ns)
    marks, mask = training.process.marks, _mask_loader(training, kind)
    batch_rows = _find_rows(marks, mask, wire.NEXT, without=_NO_BATCH)
    batches = max(1.0, _count_within(marks.end[batch_rows], ends) / max(1, len(ends) - 1))
    turns = _find_turns(marks, mask, batch_rows)
    turn_steps = np.searchsorted(ends, [start for start, _ in turns]) - 1
    for step, (_, took) in zip(turn_steps.tolist(), turns, strict=True):
        if 0 <= step < len(turns_ns):
            turns_ns[step] += took
    loader = int(marks.subject[batch_rows[0]])
    size = _batch_size(training, loader)
    return ArmLoader(
        round_steps=_count_round_steps(training, loader, batches),
        samples=None if size is None else size * batches,
        epoch=_count_epoch_steps(training, loader, turn_steps, batches),
        first_batch_ns=_measure_first_batch(marks, mask, batch_rows),
        turns_ns=turns_ns,
    )


def fact_values(training: Training, noun: str, number: int) -> Mapping[str, object]:
    """Return the values of a fact; nothing where it was not written."""
    fact = fact_of(training.process, noun, number)
    return fact.values if fact else {}


def _count_within(times: Int64, ends: Int64) -> int:
    return int(((times > ends[0]) & (times <= ends[-1])).sum())


def _find_rows(marks: Marks, mask: Bool, kind: int, *, without: int) -> Int64:
    return np.flatnonzero(mask & (marks.kind == kind) & ((marks.flags & without) == 0))


def _mask_loader(training: Training, kind: Hashable) -> Bool:
    """Return which marks of the stepping thread are about loaders of one line and settings."""
    marks = training.process.marks
    about = np.isin(marks.kind, (wire.NEXT, wire.ITER, wire.CLOSE))
    rows = np.flatnonzero(about & (marks.thread == training.edges.thread))
    subjects = {
        subject: loader_kind(training.process, subject)
        for subject in set(marks.subject[rows].tolist())
    }
    mask = np.zeros(len(marks), bool)
    mask[rows] = [subjects[subject] == kind for subject in marks.subject[rows].tolist()]
    return mask


def _find_feeding_kind(training: Training, ends: Int64) -> Hashable | None:
    """Return the loader, with those alike, of which most steps took a batch."""
    marks = training.process.marks
    has_batch = (marks.kind == wire.NEXT) & ((marks.flags & _NO_BATCH) == 0)
    rows = np.flatnonzero(has_batch & (marks.thread == training.edges.thread))
    steps_by_kind: dict[Hashable, set[int]] = {}
    for subject in dict.fromkeys(marks.subject[rows].tolist()):
        indices = np.searchsorted(ends, marks.end[rows[marks.subject[rows] == subject]])
        steps_by_kind.setdefault(loader_kind(training.process, subject), set()).update(
            indices.tolist()
        )
    return max(steps_by_kind, key=lambda kind: len(steps_by_kind[kind]), default=None)


def _find_turns(marks: Marks, mask: Bool, batch_rows: Int64) -> list[tuple[int, int]]:
    """Return when each epoch after the first began, and what that took.

    The end of the one before (the call that gives no batch, the workers' end), the iterator, and
    the excess of its first batch over usual ones.
    """
    iterator_rows = _find_rows(marks, mask, wire.ITER, without=wire.RAISED)
    first_rows = [_find_next_batch(marks, batch_rows, row) for row in iterator_rows.tolist()]
    lengths_ns = marks.end - marks.start
    ordinary_rows = np.setdiff1d(batch_rows, [row for row in first_rows if row is not None])
    usual_ns = int(np.median(lengths_ns[ordinary_rows])) if len(ordinary_rows) else 0
    is_ending = np.isin(marks.kind, (wire.ITER, wire.CLOSE)) | ((marks.flags & wire.EXHAUSTED) != 0)
    rows = np.flatnonzero(mask & is_ending)
    ending_spans = union(marks.start[rows], marks.end[rows])
    turns = list[tuple[int, int]]()
    for before, row, first_row in zip(
        iterator_rows[:-1], iterator_rows[1:], first_rows[1:], strict=True
    ):
        late_ns = 0 if first_row is None else max(0, int(lengths_ns[first_row]) - usual_ns)
        is_within = (ending_spans.start >= marks.end[before]) & (ending_spans.end <= marks.end[row])
        turns.append(
            (
                int(marks.start[row]),
                late_ns + int((ending_spans.end - ending_spans.start)[is_within].sum()),
            )
        )
    return turns


def _find_next_batch(marks: Marks, batch_rows: Int64, row: int) -> int | None:
    """Return the first batch after an iterator was made."""
    later_rows = batch_rows[marks.start[batch_rows] >= marks.end[row]]
    return int(later_rows[np.argmin(marks.start[later_rows])]) if len(later_rows) else None


def _measure_first_batch(marks: Marks, mask: Bool, batch_rows: Int64) -> int:
    """Return how long the first batch took, the iterator's start included."""
    first_row = int(batch_rows[np.argmin(marks.end[batch_rows])])
    starts_ns = marks.start[_find_rows(marks, mask, wire.ITER, without=wire.RAISED)]
    before = starts_ns[starts_ns <= marks.start[first_row]]
    return int(marks.end[first_row]) - int(before.min() if len(before) else marks.start[first_row])


def _count_round_steps(training: Training, loader: int, batches: float) -> int:
    values = fact_values(training, "loader", loader)
    workers, ahead = values.get("num_workers"), values.get("prefetch_factor")
    if not isinstance(workers, int) or not workers:
        return 1
    n_batches = workers * (ahead if isinstance(ahead, int) else 2)  # 2: torch's own
    return max(1, round(n_batches / batches))


def _count_epoch_steps(training: Training, loader: int, turns: Int64, batches: float) -> int | None:
    """Return the steps of an epoch: as seen, else by the size of the data."""
    if len(turns):
        return int(np.median(np.diff(turns, prepend=-1)))
    values = fact_values(training, "loader", loader)
    length, size = values.get("length"), values.get("batch_size")
    if not isinstance(length, int) or not isinstance(size, int) or not size:
        return None
    return max(1, round(-(-length // size) / batches))


def _batch_size(training: Training, loader: int) -> float | None:
    """Return the mean size of fetched batches, else the loader's setting."""
    processes = [
        training.process,
        *(worker for worker in training.workers if worker.loader == loader),
    ]
    tables = [fetch_table(process, loader) for process in processes]
    samples, count = (np.concatenate([table[name] for table in tables]) for name in _SIZE)
    is_known = samples > 0
    if is_known.any():
        return float(samples[is_known].sum() / count[is_known].sum())
    size = fact_values(training, "loader", loader).get("batch_size")
    return float(size) if isinstance(size, int) else None
