"""The processes of a run that trained, each with its workers, its life and its steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless import wire
from gapless.model.recording import Process, Recording
from gapless.study.recorded.edges import Bool, Edges, edges, unprofiled


@dataclass(frozen=True)
class Training:
    """One training process."""

    process: Process
    workers: tuple[Process, ...]  # of its loaders
    start: int
    end: int
    last: int  # the end of what it recorded
    edges: Edges

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
    busy = [one for one in every if len(one.edges.ends) or _loads(one.process)]
    return tuple(busy or every)


def _loads(process: Process) -> bool:
    """Tell whether a process loads: a child that only saves for another, say, is no training."""
    loads = np.isin(process.marks.kind, (wire.NEXT, wire.ITER))
    return bool(loads.any()) or bool(len(process.batches)) or bool(process.windows)


def steppers(every: Sequence[Training]) -> tuple[Training, ...]:
    """Give for each rank the process that made most steps; those without two steps are left out."""
    best: dict[int | None, Training] = {}
    for one in every:
        known = best.get(one.process.rank)
        if len(one.edges.ends) > 1 and (
            known is None or len(one.edges.ends) > len(known.edges.ends)
        ):
            best[one.process.rank] = one
    return tuple(best.values())


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
    return Training(process, workers, process.start, max(end, last), last, edges(process))


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
    columns = (process.marks.end, process.batches.columns["end"])
    ends = [int(np.max(column)) for column in columns if len(column)]
    return max([process.start, *(one.end for one in process.windows), *ends])


def counted(training: Training) -> Bool:
    """Tell which steps are counted: those that no profiler touched, all where it touched all."""
    free = unprofiled(training.process, training.edges.ends)
    return free if free.any() else np.ones(len(free), bool)
