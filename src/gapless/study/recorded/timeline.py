"""The whole command: the life of each training process, charged to run leaves."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.run import ProcessTime, Timeline
from gapless.study.recorded.rows import Charged, added
from gapless.study.recorded.training import Training, counted


def timeline(every: Sequence[Charged], followed: Sequence[Training] = ()) -> Timeline:
    """Charge the lives of all training processes; the sums are checked here.

    ``followed``: those whose steps are looked at.
    """
    ranks = _ranks([one.training.process for one in every])
    chosen = {id(one) for one in followed}
    processes = tuple(
        _process(one, rank, followed=id(one.training) in chosen)
        for one, rank in zip(every, ranks, strict=True)
    )
    wall = sum(one.wall_ns for one in processes)
    leaves = added([one.leaves for one in processes])
    if wall != sum(leaves.values()):
        msg = f"lives of {wall} ns sum to {sum(leaves.values())} ns over their leaves"
        raise AssertionError(msg)
    return Timeline(wall, leaves, processes)


def _ranks(processes: Sequence[Process]) -> list[int | None]:
    """Give the rank of each process; none where processes that know of no world go by the same."""
    many = Counter(process.rank for process in processes)
    return [
        None if process.world is None and many[process.rank] > 1 else process.rank
        for process in processes
    ]


def _process(one: Charged, rank: int | None, *, followed: bool) -> ProcessTime:
    training = one.training
    steps = training.edges
    ends, rows = steps.ends, counted(training)
    many, noted = int(steps.many[rows].sum()), np.diff(ends)[rows & steps.noted]
    first = _first_batch(training)
    argv = training.process.argv
    return ProcessTime(
        rank=rank,
        pid=training.process.pid,
        wall_ns=training.end - training.start,
        leaves=one.row.parts(),
        steps=steps.count,
        stepping=one.stepping,
        mean_ns=round(int(np.diff(ends)[rows].sum()) / many) if many else None,
        median_ns=round(float(np.median(noted))) if len(noted) else None,
        first_step_ns=None if steps.first is None else steps.first - training.start,
        first_batch_ns=first[1] if first else None,
        to_first_batch_ns=first[0] if first else None,
        killed=training.killed,
        script=PurePath(argv[0]).name or None if argv else None,
        followed=followed,
    )


def _first_batch(training: Training) -> tuple[int, int] | None:
    """Give when the first batch was handed over, and how long it took with the workers' start.

    ``None``: none was, or it is not known, since it is one of a sum.
    """
    marks = training.process.marks
    handed = (marks.kind == wire.NEXT) & ((marks.flags & (wire.EXHAUSTED | wire.RAISED)) == 0)
    rows = np.flatnonzero(handed & (marks.thread == training.edges.thread))
    if not len(rows):
        return None
    row = rows[np.argmin(marks.end[rows])]
    others = training.sums.calls.of(wire.NEXT, thread=training.edges.thread)
    if (training.sums.end[others.stretch] <= marks.end[row]).any():
        return None
    turns = (marks.kind == wire.ITER) & (marks.subject == marks.subject[row])
    begun = [*marks.start[turns & (marks.end <= marks.start[row])].tolist(), int(marks.start[row])]
    return int(marks.end[row]) - training.start, int(marks.end[row]) - min(begun)
