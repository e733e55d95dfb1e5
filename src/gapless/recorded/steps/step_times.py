"""Step times of a run, of the steps that no profiler touched."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gapless import wire
from gapless.accounting.intervals import Lane, overlap, piece_at, union
from gapless.model.recording import Process
from gapless.model.rhythm import Phase
from gapless.model.run import ProfilerSlowdown, RunSteps
from gapless.model.trace import Int64
from gapless.recorded.loaders.batches import fetch_table
from gapless.recorded.loaders.waits import Waits
from gapless.recorded.steps.drift import step_drift
from gapless.recorded.steps.evaluations import Evaluating
from gapless.recorded.steps.rows import TrainingRow
from gapless.recorded.training.edges import (
    Bool,
    Edges,
    estimate_noise,
    fact_of,
    loader_kind,
    logging_period,
    unprofiled_steps,
)
from gapless.recorded.training.processes import (
    Training,
    calls_within,
    counted_lane,
    counted_steps,
    left_out_steps,
)

_MIN_STEPS: Final = 5  # steps on either side
_MIN_SLOWDOWN: Final = 1.05  # times, or nothing is reported
_EXCLUDED_MARKS: Final = (wire.NEXT, wire.COLLECTOR, wire.CHECKPOINT, wire.LOGGING, wire.PROFILING)


class _Sides(Struct, frozen=True):
    """What steps took besides waits for data and rare events, before and after, in ns."""

    before: Int64
    behind: Int64


def find_slowdown(process: Process, edges: Edges, is_counted: Bool) -> ProfilerSlowdown | None:
    """Return what steps took before and after the first window, if they are slower after it.

    ``None`` without a device, and where the profiler was detached: nothing is left behind then.
    """
    if process.windows and all(window.detached for window in process.windows):
        return None
    return compare_sides(process, edges, is_counted)


def compare_sides(process: Process, edges: Edges, is_counted: Bool) -> ProfilerSlowdown | None:
    """Return the same, whatever the windows record about their profiler."""
    sides = _sides(process, edges, is_counted)
    if sides is None:
        return None
    behind_low, before_high = np.quantile(sides.behind, 0.25), np.quantile(sides.before, 0.75)
    before, behind = float(np.median(sides.before)), float(np.median(sides.behind))
    if behind_low <= before_high or behind < _MIN_SLOWDOWN * before:
        return None
    return ProfilerSlowdown(len(sides.before), round(before), round(behind))


def _sides(process: Process, edges: Edges, is_counted: Bool) -> _Sides | None:
    marks = process.marks
    is_ours = (marks.kind == wire.OBSERVER) & (marks.value == wire.OBSERVER_WINDOW)
    if not is_ours.any() or not (marks.kind == wire.DEVICE_STEP).any():
        return None
    starts, ends = edges.ends[:-1], edges.ends[1:]
    is_excluded = np.isin(marks.kind, _EXCLUDED_MARKS) & (marks.thread == edges.thread)
    lengths_ns = (
        ends
        - starts
        - overlap(union(marks.start[is_excluded], marks.end[is_excluded]), starts, ends)
    )
    rows = is_counted & edges.is_single
    rows[:1] = False  # the very first one sets things up
    window_start_ns = int(marks.start[is_ours].min())
    before, behind = (
        lengths_ns[rows & (ends <= window_start_ns)],
        lengths_ns[rows & (starts >= window_start_ns)],
    )
    return _Sides(before, behind) if min(len(before), len(behind)) >= _MIN_STEPS else None


_SIZE_COLUMNS = ("samples", "count")
_MIN_DEVICE_STEPS = 3  # marks from which their median is given


def run_steps(
    trainings: Sequence[Training],
    training_rows: Sequence[TrainingRow],
    *,
    with_noise: bool = True,
) -> RunSteps | None:
    """Return the step times of all ranks; ``None`` if none made two steps.

    Without noise and drift, which take most of the time, where the figures are only shown.
    """
    if not trainings:
        return None
    first_training = trainings[0]
    single_ns = np.concatenate([_single_step_ns(training) for training in trainings])
    lengths_ns = (
        single_ns
        if len(single_ns)
        else np.concatenate([_mean_step_ns(training) for training in trainings])
    )
    low, median, high = np.quantile(lengths_ns, (0.1, 0.5, 0.9))
    n_steps = sum(
        int(training.edges.step_counts[counted_steps(training)].sum()) for training in trainings
    )
    wall_ns = sum(
        int(np.diff(training.edges.ends)[counted_steps(training)].sum()) for training in trainings
    )
    rates = _rank_rates(trainings, training_rows)
    return RunSteps(
        count=max(training.edges.count for training in trainings),
        regular=n_steps,
        mean_ns=round(wall_ns / n_steps),
        median_ns=round(float(median)),
        p10_ns=round(float(low)),
        p90_ns=round(float(high)),
        noise=estimate_noise(
            _single_step_ns(first_training),
            logging_period(first_training.process, first_training.edges),
        )
        if with_noise
        else None,
        samples_per_s=sum(rates.values()) or None,
        rank_rates=rates,
        device_median_ns=_device_median_ns(trainings),
        rule=first_training.edges.rule,
        anchor=first_training.edges.anchor,
        passes=first_training.edges.passes,
        update_ns=first_training.edges.update_ns,
        profiled_only=not any(
            unprofiled_steps(training.process, training.edges.ends).any() for training in trainings
        ),
        noted=len(single_ns),
        host_ns=_host_step_ns(trainings),
        slowdown=find_slowdown(
            first_training.process, first_training.edges, counted_steps(first_training)
        )
        if len(trainings) == 1
        else None,
        ahead=sum(int(left_out_steps(training).sum()) for training in trainings),
        drift=step_drift(trainings) if with_noise else None,
        phases=tuple(_iter_phases(first_training)),
    )


def _iter_phases(training: Training) -> Iterator[Phase]:
    """Return the phases of a process's training, in order."""
    edges = training.edges
    rows = counted_steps(training) & edges.is_single
    lengths, ends = np.diff(edges.ends)[rows], edges.ends[1:][rows]
    begin = int(edges.ends[0])
    for anchor, count, end in edges.phases:
        phase_lengths = lengths[(ends > begin) & (ends <= end)]
        median = round(float(np.median(phase_lengths))) if len(phase_lengths) else None
        yield Phase(anchor, count, max(0, end - begin), median)
        begin = max(begin, end)


def _single_step_ns(training: Training) -> Int64:
    """Return the lengths of the counted steps that were recorded one by one."""
    return np.diff(training.edges.ends)[counted_steps(training) & training.edges.is_single]


def _host_step_ns(trainings: Sequence[Training]) -> tuple[int, int] | None:
    """Return the shortest and the 10th-percentile un-profiled step, of a host ahead included."""
    is_free = [
        unprofiled_steps(training.process, training.edges.ends) & training.edges.is_single
        for training in trainings
    ]
    pairs = zip(trainings, is_free, strict=True)
    lengths_ns = np.concatenate([np.diff(training.edges.ends)[rows] for training, rows in pairs])
    return (
        (int(lengths_ns.min()), round(float(np.quantile(lengths_ns, 0.1))))
        if len(lengths_ns)
        else None
    )


def _mean_step_ns(training: Training) -> Int64:
    rows = counted_steps(training)
    return np.diff(training.edges.ends)[rows] // training.edges.step_counts[rows]


def _rank_rates(
    trainings: Sequence[Training], training_rows: Sequence[TrainingRow]
) -> dict[int, float]:
    """Return the samples per second of each rank; of none if one of them is not known."""
    training_ids = {id(training) for training in trainings}
    rates = {
        -1 - index if row.training.process.rank is None else row.training.process.rank: rate
        for index, row in enumerate(training_rows)
        if id(row.training) in training_ids
        for rate in (_rank_rate(row),)
    }
    known_rates = {rank: rate for rank, rate in rates.items() if rate is not None}
    return known_rates if len(known_rates) == len(rates) else {}


def _rank_rate(training_row: TrainingRow) -> float | None:
    """Return the samples per second of the loader with most hand-overs in counted steps.

    Loaders that were created again, for each epoch say, are one. Batches of an evaluation train
    nothing, and are not counted.
    """
    training = training_row.training
    lane = counted_lane(training)
    batches_by_kind: dict[object, dict[int, int]] = {}
    evaluating = training_row.evaluations.loaders
    for loader_waits, is_own in zip(training_row.waits, evaluating, strict=True):
        n_batches = _count_hand_overs(training, lane, loader_waits, is_own)
        if n_batches:
            batches_by_kind.setdefault(loader_kind(training.process, loader_waits.loader), {})[
                loader_waits.loader
            ] = n_batches
    wall_ns = int((lane.end - lane.start).sum())
    if not batches_by_kind or not wall_ns:
        return None
    busiest = max(batches_by_kind.values(), key=lambda kind: sum(kind.values()))
    sizes = {loader: _batch_size(training, loader) for loader in busiest}
    known_sizes = {loader: size for loader, size in sizes.items() if size is not None}
    if len(known_sizes) < len(sizes):
        return None
    return sum(busiest[loader] * size for loader, size in known_sizes.items()) / wall_ns * 1e9


def _count_hand_overs(training: Training, lane: Lane, waits: Waits, is_own: Evaluating) -> int:
    recorded = int((piece_at(lane, waits.end[~is_own.kept] - 1) >= 0).sum())
    trained = waits.summed.take(~is_own.summed)
    return recorded + int(calls_within(training, lane, trained).count.sum())


def _batch_size(training: Training, loader: int) -> float | None:
    """Return the mean size of fetched batches, else the loader's setting."""
    makers = [training.process, *(worker for worker in training.workers if worker.loader == loader)]
    tables = [fetch_table(maker, loader) for maker in makers]
    samples, count = (np.concatenate([table[name] for table in tables]) for name in _SIZE_COLUMNS)
    fact = fact_of(training.process, "loader", loader)
    declared = fact.values.get("batch_size") if fact else None
    is_known = samples > 0
    if fact is not None and declared is None and (samples[is_known] == count[is_known]).all():
        return None  # the data set makes batches itself: their size is not known
    if is_known.any():
        return float(samples[is_known].sum() / count[is_known].sum())
    return float(declared) if isinstance(declared, int) else None


def _device_median_ns(trainings: Sequence[Training]) -> int | None:
    device_steps = list[Int64]()
    for training in trainings:
        marks = training.process.marks
        rows = (marks.kind == wire.DEVICE_STEP) & (marks.value > 0)
        device_steps.append(marks.value[rows])
    lengths = np.concatenate(device_steps)
    return round(float(np.median(lengths))) if len(lengths) >= _MIN_DEVICE_STEPS else None
