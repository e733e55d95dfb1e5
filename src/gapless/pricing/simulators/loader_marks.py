"""What the run's marks alone show of a loader whose workers persist, or that has none.

The replay of a loader's queue models much concurrency: it refuses where workers' own threads wait
for processors, and its intervals are wide where it misses the run. The waits of the training thread
for workers' start, and for each batch, go whatever the queue does: that is the least gain, however
far off replays of queues were elsewhere.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from gapless.catalogue.queries.input.loaders import MIN_QUEUE_SHARE, Loading, find_loading
from gapless.catalogue.queries.input.without_workers import (
    estimate_persistence,
    estimate_without_workers,
)
from gapless.model.change import Change, LoaderChange, Prediction
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence, NotObservedError

_MAX_STEP_SHARE: Final = 0.98  # of a step: a prediction that leaves less is refused
_MIN_GAIN: Final = 1.02  # the gain above which marks are consulted
_NOTE: Final = "by the waits of the run for workers: {why}"


def apply_marks(
    evidence: Evidence, changes: Sequence[Change], prediction: Prediction
) -> Prediction:
    """Return a prediction, no lower than that of the marks; theirs where there is none."""
    marked_speedup = _predict_by_marks(evidence, changes)
    if prediction.speedup is not None and marked_speedup is None:
        marked_speedup = _predict_by_processors(evidence, changes)
    if marked_speedup is None or marked_speedup.mid < _MIN_GAIN:
        return prediction
    if prediction.speedup is None:
        note = _NOTE.format(why=prediction.refused or "nothing is replayed")
        return Prediction(marked_speedup, "feed", notes=(note,), floor=marked_speedup.low)
    speedup = prediction.speedup
    bounds = zip(
        (speedup.low, speedup.mid, speedup.high),
        (marked_speedup.low, marked_speedup.mid, marked_speedup.high),
        strict=True,
    )
    floor = max(prediction.floor or marked_speedup.low, marked_speedup.low)
    return replace(prediction, speedup=Estimate(*(max(pair) for pair in bounds)), floor=floor)


def _predict_by_marks(evidence: Evidence, changes: Sequence[Change]) -> Estimate | None:
    """Return the speed-up by marks; ``None``: they do not cover such changes."""
    change = changes[0]
    if len(changes) > 1 or not isinstance(change, LoaderChange):
        return None
    keep_alive, no_workers = (
        LoaderChange(change.loader, persistent_workers=True),
        LoaderChange(change.loader, num_workers=0),
    )
    change = _without_idle_settings(change)
    loader = evidence.facts.find_loader(change.loader)
    if loader is None or not loader.num_workers or change not in (keep_alive, no_workers):
        return None
    try:
        loader_times = find_loading(evidence, loader)
        if loader_times is None:
            return None
        removed_share = (
            estimate_persistence(loader_times)
            if change == keep_alive
            else estimate_without_workers(loader_times, evidence)
        )
    except NotObservedError:
        return None
    return Estimate(
        *(
            1 / (1 - min(_MAX_STEP_SHARE, share))
            for share in (removed_share.low, removed_share.mid, removed_share.high)
        )
    )


def _predict_by_processors(evidence: Evidence, changes: Sequence[Change]) -> Estimate | None:
    """Return the least gain of workers that compute less, on the processors that train.

    Where all processors are in use, a step takes at least the processor time of all its work,
    divided by their number. ``None``: the change is another one, or workers hardly wait for
    processors, or there are more workers than processors: then they wait for one another.
    """
    change = changes[0]
    if len(changes) > 1 or not isinstance(change, LoaderChange) or not change.stages:
        return None
    loader = evidence.facts.find_loader(change.loader)
    try:
        loading = None if loader is None else find_loading(evidence, loader)
        if (
            loading is None
            or change != LoaderChange(change.loader, stages=change.stages)
            or not loading.processors.computes
            or loading.queue_share < MIN_QUEUE_SHARE
            or loading.loader.num_workers > loading.processors.count
        ):
            return None
        freed_ns = _freed_ns(loading, change.stages) / loading.processors.count
    except NotObservedError:
        return None
    speedup = 1 / (1 - min(_MAX_STEP_SHARE, freed_ns / loading.step_ns))
    return Estimate(speedup, speedup, speedup)


def _freed_ns(loading: Loading, factors: Mapping[str, float]) -> float:
    """Return the processor time of a batch that goes with a part of its stages."""
    freed_share = sum(
        stage.share * (1 - factors[stage.name])
        for stage in loading.workers.stages
        if stage.name in factors
    )
    return (loading.cpu_ns or 0.0) * freed_share


def _without_idle_settings(change: LoaderChange) -> LoaderChange:
    """Leave out settings of workers where there will be none: they change nothing."""
    if change.num_workers != 0:
        return change
    return structs.replace(
        change, prefetch_factor=None, in_order=None, persistent_workers=None, worker_threads=None
    )
