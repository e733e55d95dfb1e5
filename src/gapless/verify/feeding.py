"""The loader that feeds the steps of an arm: its rounds, its first batch, its epoch turns."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from gapless import wire
from gapless.accounting.intervals import union
from gapless.model.recording import Marks
from gapless.model.trace import Int64
from gapless.study.recorded.batches import fetched
from gapless.study.recorded.edges import Bool, fact_of, kind_of
from gapless.study.recorded.training import Training

_NO_BATCH = wire.EXHAUSTED | wire.RAISED
_SIZE = ("samples", "count")


@dataclass(frozen=True)
class Feed:
    """What the loader of a training's steps did."""

    round: int  # steps that a round of workers × prefetch feeds; 1: it has no workers
    samples: float | None  # a step
    epoch: int | None  # steps
    first_ns: int | None  # the first batch, from the iterator's start
    turned: Int64  # for each step after the first, what an epoch turn took in it


def feed(training: Training, ends: Int64) -> Feed:
    """Give what feeds the steps; a training without a loader has rounds of one step."""
    none = np.zeros(max(0, len(ends) - 1), np.int64)
    kind = _feeding(training, ends)
    if kind is None:
        return Feed(1, None, None, None, none)
    marks, mine = training.process.marks, _of(training, kind)
    handed = _rows(marks, mine, wire.NEXT, without=_NO_BATCH)
    batches = max(1.0, _within(marks.end[handed], ends) / max(1, len(ends) - 1))
    turns = _turns(marks, mine, handed)
    at = np.searchsorted(ends, [start for start, _ in turns]) - 1
    for place, (_, took) in zip(at.tolist(), turns, strict=True):
        if 0 <= place < len(none):
            none[place] += took
    loader = int(marks.subject[handed[0]])
    size = _batch_size(training, loader)
    return Feed(
        round=_round(training, loader, batches),
        samples=None if size is None else size * batches,
        epoch=_epoch(training, loader, at, batches),
        first_ns=_first(marks, mine, handed),
        turned=none,
    )


def told(training: Training, noun: str, number: int) -> Mapping[str, object]:
    """Give what a fact says; nothing where it was not written."""
    fact = fact_of(training.process, noun, number)
    return fact.values if fact else {}


def _within(times: Int64, ends: Int64) -> int:
    return int(((times > ends[0]) & (times <= ends[-1])).sum())


def _rows(marks: Marks, mine: Bool, kind: int, *, without: int) -> Int64:
    return np.flatnonzero(mine & (marks.kind == kind) & ((marks.flags & without) == 0))


def _of(training: Training, kind: Hashable) -> Bool:
    """Tell which marks of the stepping thread are about loaders of one line and settings."""
    marks = training.process.marks
    about = np.isin(marks.kind, (wire.NEXT, wire.ITER, wire.CLOSE))
    rows = np.flatnonzero(about & (marks.thread == training.edges.thread))
    subjects = {one: kind_of(training.process, one) for one in set(marks.subject[rows].tolist())}
    found = np.zeros(len(marks), bool)
    found[rows] = [subjects[one] == kind for one in marks.subject[rows].tolist()]
    return found


def _feeding(training: Training, ends: Int64) -> Hashable | None:
    """Give the loader, with those alike, of which most steps took a batch."""
    marks = training.process.marks
    handed = (marks.kind == wire.NEXT) & ((marks.flags & _NO_BATCH) == 0)
    rows = np.flatnonzero(handed & (marks.thread == training.edges.thread))
    steps: dict[Hashable, set[int]] = {}
    for subject in dict.fromkeys(marks.subject[rows].tolist()):
        at = np.searchsorted(ends, marks.end[rows[marks.subject[rows] == subject]])
        steps.setdefault(kind_of(training.process, subject), set()).update(at.tolist())
    return max(steps, key=lambda one: len(steps[one]), default=None)


def _turns(marks: Marks, mine: Bool, handed: Int64) -> list[tuple[int, int]]:
    """Give when each epoch after the first began, and what that took.

    The end of the one before (the call that gives no batch, the workers' end), the iterator, and
    what its first batch takes longer than batches usually do.
    """
    begun = _rows(marks, mine, wire.ITER, without=wire.RAISED)
    firsts = [_next(marks, handed, row) for row in begun.tolist()]
    long = marks.end - marks.start
    ordinary = np.setdiff1d(handed, [row for row in firsts if row is not None])
    usual = int(np.median(long[ordinary])) if len(ordinary) else 0
    ending = np.isin(marks.kind, (wire.ITER, wire.CLOSE)) | ((marks.flags & wire.EXHAUSTED) != 0)
    rows = np.flatnonzero(mine & ending)
    taken = union(marks.start[rows], marks.end[rows])
    found = list[tuple[int, int]]()
    for before, row, first in zip(begun[:-1], begun[1:], firsts[1:], strict=True):
        late = 0 if first is None else max(0, int(long[first]) - usual)
        of = (taken.start >= marks.end[before]) & (taken.end <= marks.end[row])
        found.append((int(marks.start[row]), late + int((taken.end - taken.start)[of].sum())))
    return found


def _next(marks: Marks, handed: Int64, row: int) -> int | None:
    """Give the first batch after an iterator was made."""
    later = handed[marks.start[handed] >= marks.end[row]]
    return int(later[np.argmin(marks.start[later])]) if len(later) else None


def _first(marks: Marks, mine: Bool, handed: Int64) -> int:
    """Give how long the first batch took, the iterator's start included."""
    first = int(handed[np.argmin(marks.end[handed])])
    begun = marks.start[_rows(marks, mine, wire.ITER, without=wire.RAISED)]
    before = begun[begun <= marks.start[first]]
    return int(marks.end[first]) - int(before.min() if len(before) else marks.start[first])


def _round(training: Training, loader: int, batches: float) -> int:
    known = told(training, "loader", loader)
    workers, ahead = known.get("num_workers"), known.get("prefetch_factor")
    if not isinstance(workers, int) or not workers:
        return 1
    many = workers * (ahead if isinstance(ahead, int) else 2)  # 2: torch's own
    return max(1, round(many / batches))


def _epoch(training: Training, loader: int, turns: Int64, batches: float) -> int | None:
    """Give the steps of an epoch: as seen, else by the size of the data."""
    if len(turns):
        return int(np.median(np.diff(turns, prepend=-1)))
    known = told(training, "loader", loader)
    length, size = known.get("length"), known.get("batch_size")
    if not isinstance(length, int) or not isinstance(size, int) or not size:
        return None
    return max(1, round(-(-length // size) / batches))


def _batch_size(training: Training, loader: int) -> float | None:
    """Give the mean batch that was fetched, else what the loader was told."""
    made = [training.process, *(one for one in training.workers if one.loader == loader)]
    tables = [fetched(one, loader) for one in made]
    samples, count = (np.concatenate([one[name] for one in tables]) for name in _SIZE)
    known = samples > 0
    if known.any():
        return float(samples[known].sum() / count[known].sum())
    size = told(training, "loader", loader).get("batch_size")
    return float(size) if isinstance(size, int) else None
