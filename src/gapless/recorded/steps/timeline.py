"""The whole command: the life of each training process, charged to run leaves."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.run import ProcessTime, Timeline
from gapless.recorded.steps.rows import TrainingRow, sum_leaves
from gapless.recorded.training.processes import Training, counted_steps


def timeline(training_rows: Sequence[TrainingRow], followed: Sequence[Training] = ()) -> Timeline:
    """Charge the lives of all training processes; the sums are checked here.

    ``followed``: those whose steps are studied.
    """
    ranks = _unique_ranks([training_row.training.process for training_row in training_rows])
    followed_ids = {id(training) for training in followed}
    processes = tuple(
        _process_time(training_row, rank, followed=id(training_row.training) in followed_ids)
        for training_row, rank in zip(training_rows, ranks, strict=True)
    )
    wall_ns = sum(process.wall_ns for process in processes)
    leaves = sum_leaves([process.leaves for process in processes])
    if wall_ns != sum(leaves.values()):
        msg = f"lives of {wall_ns} ns sum to {sum(leaves.values())} ns over their leaves"
        raise AssertionError(msg)
    return Timeline(wall_ns, leaves, processes)


def _unique_ranks(processes: Sequence[Process]) -> list[int | None]:
    """Return the rank of each process; none where processes outside a world share one."""
    counts = Counter(process.rank for process in processes)
    return [
        None if process.world is None and counts[process.rank] > 1 else process.rank
        for process in processes
    ]


def _process_time(training_row: TrainingRow, rank: int | None, *, followed: bool) -> ProcessTime:
    training = training_row.training
    edges = training.edges
    ends, rows = edges.ends, counted_steps(training)
    n_steps, single_ns = int(edges.step_counts[rows].sum()), np.diff(ends)[rows & edges.is_single]
    first_batch = _first_batch(training)
    argv = training.process.argv
    return ProcessTime(
        rank=rank,
        pid=training.process.pid,
        wall_ns=training.end - training.start,
        leaves=training_row.row.sum_by_leaf(),
        steps=edges.count,
        stepping=training_row.step_leaves,
        mean_ns=round(int(np.diff(ends)[rows].sum()) / n_steps) if n_steps else None,
        median_ns=round(float(np.median(single_ns))) if len(single_ns) else None,
        first_step_ns=None if edges.first_end is None else edges.first_end - training.start,
        first_batch_ns=first_batch[1] if first_batch else None,
        to_first_batch_ns=first_batch[0] if first_batch else None,
        killed=training.was_killed,
        script=PurePath(argv[0]).name or None if argv else None,
        followed=followed,
    )


def _first_batch(training: Training) -> tuple[int, int] | None:
    """Return when the first batch was handed over, and how long it took with the workers' start.

    ``None``: none was, or it is not known, since it is one of a sum.
    """
    marks = training.process.marks
    is_hand_over = (marks.kind == wire.NEXT) & ((marks.flags & (wire.EXHAUSTED | wire.RAISED)) == 0)
    rows = np.flatnonzero(is_hand_over & (marks.thread == training.edges.thread))
    if not len(rows):
        return None
    row = rows[np.argmin(marks.end[rows])]
    summed_calls = training.sums.calls.select(wire.NEXT, thread=training.edges.thread)
    if (training.sums.end[summed_calls.stretch] <= marks.end[row]).any():
        return None
    is_begin = (marks.kind == wire.ITER) & (marks.subject == marks.subject[row])
    starts = [
        *marks.start[is_begin & (marks.end <= marks.start[row])].tolist(),
        int(marks.start[row]),
    ]
    return int(marks.end[row]) - training.start, int(marks.end[row]) - min(starts)
