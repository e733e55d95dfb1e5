"""Step times of a run, of the steps that no profiler touched."""

from collections.abc import Iterator, Sequence

import numpy as np

from gapless import wire
from gapless.accounting.intervals import Lane, piece_at
from gapless.model.rhythm import Phase
from gapless.model.run import RunSteps
from gapless.model.trace import Int64
from gapless.study.recorded.batches import fetched
from gapless.study.recorded.drift import drift
from gapless.study.recorded.edges import fact_of, kind_of, logging_period, noise, unprofiled
from gapless.study.recorded.loaders import Waited
from gapless.study.recorded.slowed import slowed
from gapless.study.recorded.training import Training, counted, left_out, regular, within
from gapless.study.recorded.waits import Waits

_SIZE = ("samples", "count")
_MANY_DEVICE_STEPS = 3  # marks from which their median is given


def run_steps(every: Sequence[Training], waited: Sequence[Waited]) -> RunSteps | None:
    """Give the step times of all ranks; ``None`` where none made two steps."""
    if not every:
        return None
    first = every[0]
    noted = np.concatenate([_noted(one) for one in every])
    lengths = noted if len(noted) else np.concatenate([_means(one) for one in every])
    low, middle, high = np.quantile(lengths, (0.1, 0.5, 0.9))
    many = sum(int(one.edges.many[counted(one)].sum()) for one in every)
    wall = sum(int(np.diff(one.edges.ends)[counted(one)].sum()) for one in every)
    return RunSteps(
        count=max(one.edges.count for one in every),
        regular=many,
        mean_ns=round(wall / many),
        median_ns=round(float(middle)),
        p10_ns=round(float(low)),
        p90_ns=round(float(high)),
        noise=noise(_noted(first), logging_period(first.process, first.edges)),
        samples_per_s=_rate(every, waited),
        device_median_ns=_on_device(every),
        rule=first.edges.rule,
        anchor=first.edges.anchor,
        profiled_only=not any(unprofiled(one.process, one.edges.ends).any() for one in every),
        noted=len(noted),
        host_ns=_of_host(every),
        slowed=slowed(first.process, first.edges, counted(first)) if len(every) == 1 else None,
        ahead=sum(int(left_out(one).sum()) for one in every),
        drift=drift(every),
        phases=tuple(_phases(first)),
    )


def _phases(training: Training) -> Iterator[Phase]:
    """Give the phases of a process's training, in order."""
    edges = training.edges
    rows = counted(training) & edges.noted
    lengths, ends = np.diff(edges.ends)[rows], edges.ends[1:][rows]
    begin = int(edges.ends[0])
    for anchor, count, end in edges.phases:
        mine = lengths[(ends > begin) & (ends <= end)]
        median = round(float(np.median(mine))) if len(mine) else None
        yield Phase(anchor, count, max(0, end - begin), median)
        begin = max(begin, end)


def _noted(training: Training) -> Int64:
    """Give the lengths of the counted steps that were noted one by one."""
    return np.diff(training.edges.ends)[counted(training) & training.edges.noted]


def _of_host(every: Sequence[Training]) -> tuple[int, int] | None:
    """Give the shortest un-profiled step and a tenth part, those of a host that is ahead too."""
    free = [unprofiled(one.process, one.edges.ends) & one.edges.noted for one in every]
    both = zip(every, free, strict=True)
    noted = np.concatenate([np.diff(one.edges.ends)[rows] for one, rows in both])
    return (int(noted.min()), round(float(np.quantile(noted, 0.1)))) if len(noted) else None


def _means(training: Training) -> Int64:
    rows = counted(training)
    return np.diff(training.edges.ends)[rows] // training.edges.many[rows]


def _rate(every: Sequence[Training], waited: Sequence[Waited]) -> float | None:
    """Add up the samples a second of all ranks; ``None`` where one of them does not tell."""
    chosen = {id(one) for one in every}
    rates = [_rate_of(one, waits) for one, waits in waited if id(one) in chosen]
    known = [one for one in rates if one is not None]
    return sum(known) if known and len(known) == len(rates) else None


def _rate_of(training: Training, waits: Sequence[Waits]) -> float | None:
    """Give the samples a second that the loader with most hand-overs gave in counted steps.

    Loaders that were made anew, for each epoch say, are one.
    """
    lane = regular(training)
    kinds: dict[object, dict[int, int]] = {}
    for one in waits:
        handed = _handed(training, lane, one)
        if handed:
            kinds.setdefault(kind_of(training.process, one.loader), {})[one.loader] = handed
    wall = int((lane.end - lane.start).sum())
    if not kinds or not wall:
        return None
    busiest = max(kinds.values(), key=lambda kind: sum(kind.values()))
    sizes = {loader: _batch_size(training, loader) for loader in busiest}
    known = {loader: size for loader, size in sizes.items() if size is not None}
    if len(known) < len(sizes):
        return None
    return sum(busiest[loader] * size for loader, size in known.items()) / wall * 1e9


def _handed(training: Training, lane: Lane, waits: Waits) -> int:
    kept = int((piece_at(lane, waits.end - 1) >= 0).sum())
    return kept + int(within(training, lane, waits.summed).count.sum())


def _batch_size(training: Training, loader: int) -> float | None:
    """Give the mean batch that was fetched, else what the loader was told."""
    made = [training.process, *(one for one in training.workers if one.loader == loader)]
    tables = [fetched(one, loader) for one in made]
    samples, count = (np.concatenate([one[name] for one in tables]) for name in _SIZE)
    fact = fact_of(training.process, "loader", loader)
    told = fact.values.get("batch_size") if fact else None
    known = samples > 0
    if fact is not None and told is None and (samples[known] == count[known]).all():
        return None  # the data set makes batches itself: what they hold is not known
    if known.any():
        return float(samples[known].sum() / count[known].sum())
    return float(told) if isinstance(told, int) else None


def _on_device(every: Sequence[Training]) -> int | None:
    found = list[Int64]()
    for one in every:
        marks = one.process.marks
        rows = (marks.kind == wire.DEVICE_STEP) & (marks.value > 0)
        found.append(marks.value[rows])
    lengths = np.concatenate(found)
    return round(float(np.median(lengths))) if len(lengths) >= _MANY_DEVICE_STEPS else None
