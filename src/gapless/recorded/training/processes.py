"""The processes of a run that trained, each with its workers, its life and its steps."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import Lane, piece_at
from gapless.model.recording import Process, Recording
from gapless.model.trace import Int64
from gapless.recorded.training.edges import Bool, Edges, find_edges, unprofiled_steps
from gapless.recorded.training.stretches import Stretches, SummedCalls, find_stretches

_MIN_DEVICE_STEPS = 3  # measured steps of the device, or nothing is reported
_MAX_AHEAD_SHARE = 0.5  # of the device's step: one of a host that runs ahead is that short
_MAX_SHORT_SHARE = 0.9  # times as short as the others, until the queue is full
_MIN_BEHIND_STEPS = 0.5  # steps: a device less behind at the end keeps up with its host


_TRAINING_RULES: Final = {
    "mark",
    "optimizer",
    "backward",
}  # rules of steps that train, or claim to
_MIN_STEPS: Final = 5  # steps below which a process hardly trains


class Training(Struct, frozen=True):
    """One training process."""

    process: Process
    workers: tuple[Process, ...]  # of its loaders
    start: int
    end: int
    last_record_ns: int  # the end of its records
    edges: Edges
    sums: Stretches

    @property
    def was_killed(self) -> bool:
        """Return whether the process recorded no end."""
        return self.process.end is None

    @property
    def span(self) -> tuple[int, int] | None:
        """Return the ends of the first and of the last step."""
        ends = self.edges.ends
        return (int(ends[0]), int(ends[-1])) if len(ends) else None


def trainings(recording: Recording) -> tuple[Training, ...]:
    """Return the training processes, by rank and start."""
    processes = [process for process in recording.processes if process.role == "training"]
    processes.sort(
        key=lambda process: (process.rank if process.rank is not None else -1, process.start)
    )
    all_trainings = [_build_training(process, processes, recording) for process in processes]
    busy = [training for training in all_trainings if training.edges.count or _is_loading(training)]
    return tuple(busy or all_trainings)


def _is_loading(training: Training) -> bool:
    """Return whether a process loads: a child that only saves for another does not train."""
    process, kinds = training.process, (wire.NEXT, wire.ITER)
    has_calls = np.isin(process.marks.kind, kinds).any() or len(
        training.sums.calls.select(*kinds).kind
    )
    return bool(has_calls) or bool(len(process.batches)) or bool(process.windows)


def select_steppers(trainings: Sequence[Training]) -> tuple[Training, ...]:
    """Return for each rank the process that trains; those without two steps are left out.

    Where several processes share a rank (they have none: a parent that tests what its children
    train) it is the one that spent most time in steps that train; else in steps at all.
    """
    best: dict[int | None, Training] = {}
    for training in trainings:
        current = best.get(training.process.rank)
        if len(training.edges.ends) > 1 and (
            current is None or _weight(training) > _weight(current)
        ):
            best[training.process.rank] = training
    return tuple(best.values())


def _weight(training: Training) -> tuple[bool, int]:
    first_end, last_end = training.span or (0, 0)
    return does_train(training), last_end - first_end


def does_train(training: Training) -> bool:
    """Return whether a process makes steps that train, and more than a few."""
    return training.edges.rule in _TRAINING_RULES and training.edges.count >= _MIN_STEPS


def _build_training(
    process: Process, siblings: Sequence[Process], recording: Recording
) -> Training:
    last_ns = _last_record_ns(process)
    end = process.end
    if end is None:
        ended_ns = recording.manifest.ended
        end = last_ns if ended_ns is None else max(last_ns, ended_ns)
    elif _is_command(process, siblings, recording):
        end = max(end, recording.manifest.ended or end)
    workers = tuple(
        worker
        for worker in recording.processes
        if worker.role == "worker" and _find_parent(worker, siblings) is process
    )
    end, process_edges = max(end, last_ns), find_edges(process)
    # Recording from within a program begins later than its process.
    start = max(process.start, recording.manifest.started)
    return Training(process, workers, start, end, last_ns, process_edges, find_stretches(process))


def _is_command(process: Process, siblings: Sequence[Process], recording: Recording) -> bool:
    """Return whether a process is the command itself, whose end the launcher saw.

    What follows the last of Python's exit functions may take seconds: tearing down torch, a device,
    threads that pin. Of programs that replaced one another by exec it is the last.
    """
    commands = [sibling for sibling in siblings if sibling.pid == recording.manifest.pid]
    return bool(commands) and max(commands, key=_last_record_ns) is process


def _find_parent(worker: Process, siblings: Sequence[Process]) -> Process | None:
    """Return the worker's parent: the process of its rank that had begun last before it."""
    rank_processes = [process for process in siblings if process.rank == worker.rank]
    before = [process for process in rank_processes if process.start <= worker.start]
    return (before or rank_processes or [None])[-1]


def _last_record_ns(process: Process) -> int:
    """Return the end of a process's last record."""
    sums = [
        sums_table.columns["end"]
        for sums_table in (process.mark_sums, process.batch_sums)
        if sums_table
    ]
    columns = (process.marks.end, process.batches.columns["end"], *sums)
    ends = [int(np.max(column)) for column in columns if len(column)]
    return max([process.start, *(window.end for window in process.windows), *ends])


def counted_steps(training: Training) -> Bool:
    """Return which stretches between ends of steps are counted.

    Those that no profiler touched, and in which the host did not just run ahead of its device; all
    where a profiler touched all.
    """
    free = unprofiled_steps(training.process, training.edges.ends)
    return free & ~_ahead_steps(training, free) if free.any() else np.ones(len(free), bool)


def left_out_steps(training: Training) -> Bool:
    """Return which un-profiled stretches are not counted: the host only ran ahead of its device."""
    return _ahead_steps(training, unprofiled_steps(training.process, training.edges.ends))


def _ahead_steps(training: Training, free: Bool) -> Bool:
    ahead = find_ahead_steps(training.process, training.edges, free)
    return ahead if (free & ~ahead).any() else np.zeros(len(free), bool)


def counted_lane(training: Training) -> Lane:
    """Return the stretches of time that hold counted steps."""
    ends, rows = training.edges.ends, counted_steps(training)
    return Lane(ends[:-1][rows], ends[1:][rows], np.flatnonzero(rows))


def calls_within(training: Training, lane: Lane, calls: SummedCalls) -> SummedCalls:
    """Select the summed calls of stretches that lie in counted steps."""
    return calls.take(piece_at(lane, training.sums.start[calls.stretch]) >= 0)


def span_of_steps(trainings: Sequence[Training]) -> tuple[int, int] | None:
    """Return from when to when steps were made, by any rank; ``None``: none were."""
    spans = [training.span for training in trainings if training.span is not None]
    if not spans:
        return None
    return min(start for start, _ in spans), max(end for _, end in spans)


def find_ahead_steps(process: Process, edges: Edges, free: Bool) -> Bool:
    """Return which of the un-profiled steps are only the host running ahead."""
    ahead = np.zeros(len(free), bool)
    device_ns = np.where(free, _device_step_ns(process, edges), 0)
    measured_ns = device_ns[device_ns > 0]
    if len(measured_ns) < _MIN_DEVICE_STEPS:
        return ahead
    usual_ns, is_single = float(np.median(measured_ns)), edges.is_single & (edges.step_counts == 1)
    lengths_ns = np.diff(edges.ends)
    growth_ns = _fill_nearest(device_ns) * edges.step_counts - lengths_ns
    bounds = np.flatnonzero(np.diff(np.concatenate(([0], free.astype(np.int8), [0]))))
    for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
        behind_ns = float(growth_ns[start:stop].sum())
        if behind_ns < _MIN_BEHIND_STEPS * usual_ns:
            continue
        is_short = is_single[start:stop] & (lengths_ns[start:stop] < _MAX_SHORT_SHARE * usual_ns)
        lead_stop = start + _count_leading(is_short)
        if not (lengths_ns[start:lead_stop] < _MAX_AHEAD_SHARE * usual_ns).any():
            continue  # the device's step was short then, too
        gained_ns = np.cumsum(growth_ns[start:lead_stop])
        ahead[start:lead_stop] = (growth_ns[start:lead_stop] > 0) & (
            gained_ns <= behind_ns + _MIN_BEHIND_STEPS * usual_ns
        )
    return ahead


def _count_leading(flags: Bool) -> int:
    """Count the rows before the first that is false."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _fill_nearest(device_ns: Int64) -> Int64:
    """Fill each unmeasured step with what the nearest measured one took."""
    measured = np.flatnonzero(device_ns > 0)
    steps = np.arange(len(device_ns))
    following = np.minimum(np.searchsorted(measured, steps), len(measured) - 1)
    preceding = np.maximum(following - 1, 0)
    nearest = np.where(
        steps - measured[preceding] <= measured[following] - steps, preceding, following
    )
    return device_ns[measured[np.where(steps >= measured[-1], len(measured) - 1, nearest)]]


def _device_step_ns(process: Process, edges: Edges) -> Int64:
    """Return for each step what it took on the device, in ns; 0 where that was not measured."""
    marks, device_ns = process.marks, np.zeros(max(len(edges.ends) - 1, 0), np.int64)
    rows = np.flatnonzero((marks.kind == wire.DEVICE_STEP) & (marks.value > 0))
    step = np.searchsorted(edges.ends, marks.end[rows]) - 1
    is_inside = (step >= 0) & (step < len(device_ns))
    rows, step = rows[is_inside], step[is_inside]
    is_whole_step = (edges.ends[step + 1] == marks.end[rows]) & (
        edges.ends[step] == marks.start[rows]
    )
    device_ns[step[is_whole_step]] = marks.value[rows[is_whole_step]]
    return device_ns
