"""The processes of a run that trained, each with its workers, its life and its steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless import wire
from gapless.accounting.intervals import Lane, piece_at
from gapless.model.recording import Process, Recording
from gapless.study.recorded.ahead import running_ahead
from gapless.study.recorded.edges import Bool, Edges, edges, unprofiled
from gapless.study.recorded.stretches import Calls, Stretches, stretches

_TRAINS: Final = {"mark", "optimizer", "backward"}  # rules of steps that train, or are said to
_FEW: Final = 5  # steps below which a process hardly trains


@dataclass(frozen=True)
class Training:
    """One training process."""

    process: Process
    workers: tuple[Process, ...]  # of its loaders
    start: int
    end: int
    last: int  # the end of what it recorded
    edges: Edges
    sums: Stretches

    @property
    def killed(self) -> bool:
        """Tell whether the process wrote no end."""
        return self.process.end is None

    @property
    def span(self) -> tuple[int, int] | None:
        """Give the ends of the first and of the last step."""
        ends = self.edges.ends
        return (int(ends[0]), int(ends[-1])) if len(ends) else None


def trainings(recording: Recording) -> tuple[Training, ...]:
    """Give the training processes, by rank and start."""
    found = [one for one in recording.processes if one.role == "training"]
    found.sort(key=lambda one: (one.rank if one.rank is not None else -1, one.start))
    every = [_training(one, found, recording) for one in found]
    busy = [one for one in every if one.edges.count or _loads(one)]
    return tuple(busy or every)


def _loads(one: Training) -> bool:
    """Tell whether a process loads: a child that only saves for another, say, is no training."""
    process, kinds = one.process, (wire.NEXT, wire.ITER)
    loads = np.isin(process.marks.kind, kinds).any() or len(one.sums.calls.of(*kinds).kind)
    return bool(loads) or bool(len(process.batches)) or bool(process.windows)


def steppers(every: Sequence[Training]) -> tuple[Training, ...]:
    """Give for each rank the process that trains; those without two steps are left out.

    Where several processes go by one rank (they have none: a parent that tests what its children
    train) it is the one that spent most time in steps that train; else in steps at all.
    """
    best: dict[int | None, Training] = {}
    for one in every:
        known = best.get(one.process.rank)
        if len(one.edges.ends) > 1 and (known is None or _weight(one) > _weight(known)):
            best[one.process.rank] = one
    return tuple(best.values())


def _weight(one: Training) -> tuple[bool, int]:
    first, last = one.span or (0, 0)
    return one.edges.rule in _TRAINS and one.edges.count >= _FEW, last - first


def _training(process: Process, beside: Sequence[Process], recording: Recording) -> Training:
    last = _last(process)
    end = process.end
    if end is None:
        ended = recording.manifest.ended
        end = last if ended is None else max(last, ended)
    elif _is_command(process, beside, recording):
        end = max(end, recording.manifest.ended or end)
    workers = tuple(
        one
        for one in recording.processes
        if one.role == "worker" and _parent(one, beside) is process
    )
    end, found = max(end, last), edges(process)
    # What is recorded from within a program begins later than its process.
    start = max(process.start, recording.manifest.started)
    return Training(process, workers, start, end, last, found, stretches(process))


def _is_command(process: Process, beside: Sequence[Process], recording: Recording) -> bool:
    """Tell whether a process is the command itself, whose end the launcher saw.

    What takes place after the last of Python's exit functions has seconds: to take down torch, a
    device, threads that pin. Of programs that followed one another by exec it is the last.
    """
    same = [one for one in beside if one.pid == recording.manifest.pid]
    return bool(same) and max(same, key=_last) is process


def _parent(worker: Process, beside: Sequence[Process]) -> Process | None:
    """Give the process of the worker's rank that had begun last when the worker began."""
    same = [one for one in beside if one.rank == worker.rank]
    before = [one for one in same if one.start <= worker.start]
    return (before or same or [None])[-1]


def _last(process: Process) -> int:
    """Give the end of the last thing that a process recorded."""
    sums = [one.columns["end"] for one in (process.mark_sums, process.batch_sums) if one]
    columns = (process.marks.end, process.batches.columns["end"], *sums)
    ends = [int(np.max(column)) for column in columns if len(column)]
    return max([process.start, *(one.end for one in process.windows), *ends])


def counted(training: Training) -> Bool:
    """Tell which stretches between ends of steps are counted.

    Those that no profiler touched, and in which the host did not just run ahead of its device; all
    where a profiler touched all.
    """
    free = unprofiled(training.process, training.edges.ends)
    return free & ~_ahead(training, free) if free.any() else np.ones(len(free), bool)


def left_out(training: Training) -> Bool:
    """Tell which un-profiled stretches are not counted: the host only ran ahead of its device."""
    return _ahead(training, unprofiled(training.process, training.edges.ends))


def _ahead(training: Training, free: Bool) -> Bool:
    found = running_ahead(training.process, training.edges, free)
    return found if (free & ~found).any() else np.zeros(len(free), bool)


def regular(training: Training) -> Lane:
    """Give the stretches of time that hold counted steps."""
    ends, rows = training.edges.ends, counted(training)
    return Lane(ends[:-1][rows], ends[1:][rows], np.flatnonzero(rows))


def within(training: Training, lane: Lane, calls: Calls) -> Calls:
    """Select the summed calls of stretches that lie in counted steps."""
    return calls.take(piece_at(lane, training.sums.start[calls.stretch]) >= 0)


def span_of_steps(every: Sequence[Training]) -> tuple[int, int] | None:
    """Give from when to when steps were made, by any rank; ``None``: none were."""
    spans = [one.span for one in every if one.span is not None]
    if not spans:
        return None
    return min(first for first, _ in spans), max(last for _, last in spans)
