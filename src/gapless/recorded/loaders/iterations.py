"""What a loader's iterations cost: their start and end, and the first fetches of workers."""

from collections.abc import Sequence

import numpy as np

from gapless import wire
from gapless.model.trace import Int64
from gapless.recorded.loaders.waits import MatchedWaits
from gapless.recorded.training.processes import Training
from gapless.replay.loader.costs import BatchRows, Turns


def turn_spans(training: Training, numbers: Sequence[int]) -> tuple[Int64, Int64]:
    """Return when iterations ended and began, as stretches of the training thread."""
    marks = training.process.marks
    ends = (marks.kind == wire.NEXT) & ((marks.flags & wire.EXHAUSTED) > 0)
    rows = ends | np.isin(marks.kind, (wire.ITER, wire.CLOSE))
    rows &= np.isin(marks.subject, numbers) & (marks.thread == training.edges.thread)
    return marks.start[rows], marks.end[rows]


def mark_lengths(training: Training, numbers: Sequence[int], kind: int) -> Int64:
    """Return the lengths of marks of a kind for some loaders, in ns."""
    marks = training.process.marks
    rows = (marks.kind == kind) & np.isin(marks.subject, numbers)
    return (marks.end - marks.start)[rows]


def median_of(values: Int64) -> int | None:
    """Return the median; ``None`` without values."""
    return round(float(np.median(values))) if len(values) else None


def measure_turns(
    training: Training, numbers: Sequence[int], pairs: Sequence[MatchedWaits], rows: BatchRows
) -> Turns:
    """Return what iterations cost where one ended between two of the rows."""
    turn_rows = np.flatnonzero(rows.turn > 0)
    if not len(turn_rows):
        return Turns()
    batch_counts = [
        int(np.max(waits.position[waits.iteration == iteration])) + 1
        for waits in pairs
        for iteration in _finished_iterations(waits)
    ]
    begins = mark_lengths(training, numbers, wire.ITER)
    return Turns(
        batches=round(float(np.median(batch_counts))) if batch_counts else None,
        begin=median_of(begins[1:] if len(begins) > 1 else begins),
        close=median_of(mark_lengths(training, numbers, wire.CLOSE)),
        first_fetch=median_of(_first_fetches(training, numbers, pairs)),
    )


def _finished_iterations(waits: MatchedWaits) -> list[int]:
    """Return the iterations of a loader whose end is known: another followed."""
    iterations: list[int] = np.unique(waits.iteration).tolist()
    return iterations[:-1] or iterations


def _first_fetches(
    training: Training, numbers: Sequence[int], pairs: Sequence[MatchedWaits]
) -> Int64:
    """Return how long after iter(loader) each worker began its first fetch of an iteration."""
    marks, delays = training.process.marks, list[Int64]()
    for number, waits in zip(numbers, pairs, strict=True):
        ends = np.sort(marks.end[(marks.kind == wire.ITER) & (marks.subject == number)])
        rows = (waits.fetches.sequence == 0) & (waits.fetches.worker >= 0)
        start = waits.fetches.start[rows]
        iteration = waits.fetches.iteration[rows]
        is_known = iteration < len(ends)
        delays.append(np.maximum(start[is_known] - ends[iteration[is_known]], 0))
    return np.concatenate([np.empty(0, np.int64), *delays])
