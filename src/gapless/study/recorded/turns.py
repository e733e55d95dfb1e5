"""What a loader's iterations cost: their begin and end, and the first fetches of their workers."""

from collections.abc import Sequence

import numpy as np

from gapless import wire
from gapless.model.trace import Int64
from gapless.replay.service import Rows, Turns
from gapless.study.recorded.training import Training
from gapless.study.recorded.waits import Matched


def turning(training: Training, numbers: Sequence[int]) -> tuple[Int64, Int64]:
    """Give when iterations ended and began: stretches of the training thread."""
    marks = training.process.marks
    ends = (marks.kind == wire.NEXT) & ((marks.flags & wire.EXHAUSTED) > 0)
    rows = ends | np.isin(marks.kind, (wire.ITER, wire.CLOSE))
    rows &= np.isin(marks.subject, numbers) & (marks.thread == training.edges.thread)
    return marks.start[rows], marks.end[rows]


def lengths_of(training: Training, numbers: Sequence[int], kind: int) -> Int64:
    """Give how long marks of a kind of some loaders were, in ns."""
    marks = training.process.marks
    rows = (marks.kind == kind) & np.isin(marks.subject, numbers)
    return (marks.end - marks.start)[rows]


def middle_of(values: Int64) -> int | None:
    """Give the median; ``None`` of nothing."""
    return round(float(np.median(values))) if len(values) else None


def turns_of(
    training: Training, numbers: Sequence[int], pairs: Sequence[Matched], rows: Rows
) -> Turns:
    """Give what iterations cost, where one ended between two of the rows."""
    turned = np.flatnonzero(rows.turn > 0)
    if not len(turned):
        return Turns()
    ended = [
        int(np.max(one.position[one.turn == turn])) + 1 for one in pairs for turn in _whole(one)
    ]
    begins = lengths_of(training, numbers, wire.ITER)
    return Turns(
        batches=round(float(np.median(ended))) if ended else None,
        begin=middle_of(begins[1:] if len(begins) > 1 else begins),
        close=middle_of(lengths_of(training, numbers, wire.CLOSE)),
        first=middle_of(_first_fetches(training, numbers, pairs)),
    )


def _whole(one: Matched) -> list[int]:
    """Give the iterations of a loader of which the end is known: another followed."""
    found: list[int] = np.unique(one.turn).tolist()
    return found[:-1] or found


def _first_fetches(training: Training, numbers: Sequence[int], pairs: Sequence[Matched]) -> Int64:
    """Give how long after iter(loader) each worker began its first fetch of an iteration."""
    marks, found = training.process.marks, list[Int64]()
    for number, one in zip(numbers, pairs, strict=True):
        ends = np.sort(marks.end[(marks.kind == wire.ITER) & (marks.subject == number)])
        rows = (one.fetches.nth == 0) & (one.fetches.worker >= 0)
        start = one.fetches.start[rows]
        at = one.fetches.iteration[rows]
        fits = at < len(ends)
        found.append(np.maximum(start[fits] - ends[at[fits]], 0))
    return np.concatenate([np.empty(0, np.int64), *found])
