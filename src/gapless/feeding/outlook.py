"""What a step of the recorded run would take with another way: by the replay of its loader."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.input.pinning import copies_others, pinning_delay
from gapless.catalogue.rules.needless.padded_batches import changes_when_shorter
from gapless.model.change import Change, CopyChange, LoaderChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import NotObservedError
from gapless.model.facts import Loader
from gapless.model.input_costs import StageCost
from gapless.pricing.price import Prices, price_changes
from gapless.wire import STAGES

# Stages as the payload calls them, and as a replay knows them.
_REPLAYED: Final = {**{stage: stage for stage in STAGES}, "rest": "other", "hand-over": "hand-over"}
_SAMPLE: Final = "sample"
_TOUCH: Final = "touch"
_FLOATS: Final = "floats"
_COPY: Final = "copy"
_PAGEABLE: Final = "pageable"
_PINNED: Final = "pinned"
_BYTES: Final = "uint8 batch"
_COPIES: Final = "copy.h2d"
_FLOAT_BYTES: Final = 4
BY_LENGTH: Final = "batches by length"
FLOATS_ON_HOST: Final = "made on the host"
FLOATS_ON_DEVICE: Final = "made on the device"
_MIN_GROWTH: Final = 2  # bytes that are copied, by those of a batch of bytes: floats are four times
_SAMPLE_STAGES: Final = tuple(stage for stage in STAGES if stage != "collate")  # of making one
_COLD: Final = "cold"
_NOW: Final = "now"
_COLD_NOW: Final = "now, cold"
_AHEAD: Final = "read ahead, cold"
_ALONE: Final = "as now, alone"
_MIN_CHANGE: Final = 0.01  # of a stage: less is none


def predict_steps(
    costs: Sequence[StageCost], prices: Prices, loader: Loader
) -> tuple[tuple[StageCost, ...], str | None]:
    """Return the costs with the step that each other way would give, and why some have none.

    What one way changes in several stages (a batch of bytes is also collated, handed over and
    copied) is replayed together, and said at the first of them.
    """
    reason: str | None = None
    foretold: list[StageCost] = []
    run_read_ns = _measure_run_read(prices, loader)
    for cost in costs:
        factors = find_factors(cost, costs, run_read_ns)
        freed_ns = find_freed_ns(cost.way, costs, loader)
        is_in_loop = cost.way == FLOATS_ON_DEVICE and _copies_floats(prices, loader)
        changes: list[Change] = _list_pinning_changes(cost, prices, loader)
        if not factors and not is_in_loop and not changes:
            foretold.append(cost)
            continue
        if not changes:
            changes.append(LoaderChange(loader.id, stages=factors, freed_ns=freed_ns))
        copying = _find_copy_factor(cost.way, costs)
        if copying is not None and prices.evidence.on_device:
            changes.append(Scale(copying, leaves=(_COPIES,)))
        prediction = price_changes(prices, changes)
        reason = reason or prediction.refused
        foretold.append(_add_step(cost, prediction.speedup, prices.evidence.step_ns))
    return tuple(foretold), reason


def _list_pinning_changes(cost: StageCost, prices: Prices, loader: Loader) -> list[Change]:
    """Return what copies of pinned batches change; nothing where the way is another.

    Nor where most of what is copied is of no batch, or it is not known what is copied.
    """
    if (cost.stage, cost.way) != (_COPY, _PINNED) or cost.is_now or not prices.evidence.on_device:
        return []
    try:
        if copies_others(prices.evidence):
            return []
    except NotObservedError:
        return []
    delays = pinning_delay(prices.evidence, loader)
    return [CopyChange(pinned=True, of_pageable=True), *delays]


def predict_buckets(prices: Prices, loader: Loader) -> StageCost | None:
    """Return the step with batches of similar lengths; ``None``: nothing to price is known.

    By what of the run's computing goes over the padding that its batches were seen to have.
    """
    if loader.padding is None or loader.texts is None:
        return None
    changes = changes_when_shorter(prices.evidence, loader.padding)
    speedup = price_changes(prices, changes).speedup
    return _add_step(
        StageCost("padding", BY_LENGTH, is_now=False), speedup, prices.evidence.step_ns
    )


def _add_step(cost: StageCost, speedup: Estimate | None, step_ns: float | None) -> StageCost:
    if speedup is None or step_ns is None:
        return cost
    step = Estimate(step_ns / speedup.high, step_ns / speedup.mid, step_ns / speedup.low)
    return replace(cost, step_ns=step, step_speedup=speedup)


def _measure_run_read(prices: Prices, loader: Loader) -> float | None:
    """Return how long reading of a sample took in the run; ``None``: not known."""
    use = prices.evidence.loader_use(loader)
    if use is None or use.workers is None or not use.workers.stages:
        return None
    return sum(stage.wall_ns for stage in use.workers.stages if stage.name == "read")


def find_factors(
    cost: StageCost, costs: Sequence[StageCost], run_read_ns: float | None = None
) -> Mapping[str, float]:
    """Return the factors of the stages that a way changes; none where that is no remedy.

    Stages are those of a fetch, as a replay of the loader knows them. ``run_read_ns``: what reading
    of a sample took in the run.
    """
    if cost.way == _AHEAD:
        return _find_read_factor(cost, costs, run_read_ns)
    if cost.is_now or cost.speedup is None or cost.way.endswith(_COLD) or cost.stage == "read":
        return {}
    if cost.stage == _SAMPLE:
        return dict.fromkeys(_SAMPLE_STAGES, 1 / cost.speedup.mid)
    same_way = [
        alternative
        for alternative in costs
        if alternative.way == cost.way and alternative.speedup is not None
    ]
    if not same_way or same_way[0].stage != cost.stage:
        return {}  # it was said at the first of its stages
    factors = {
        _REPLAYED[alternative.stage]: 1 / alternative.speedup.mid
        for alternative in same_way
        if alternative.speedup is not None and alternative.stage in _REPLAYED
    }
    factors |= _find_shrink_factor(cost.way, costs)
    return factors if any(abs(1 - factor) > _MIN_CHANGE for factor in factors.values()) else {}


def _find_read_factor(
    cost: StageCost, costs: Sequence[StageCost], run_read_ns: float | None
) -> Mapping[str, float]:
    """Return what is left of reading, where files of the run were rather cold than warm."""
    reads_ns = [
        read.sample_ns.mid
        for read in costs
        if read.stage == "read" and read.way in {_NOW, _COLD_NOW} and read.sample_ns is not None
    ]
    if cost.speedup is None or run_read_ns is None or len(reads_ns) < 2:  # noqa: PLR2004 - both
        return {}
    return {"read": 1 / cost.speedup.mid} if run_read_ns > sum(reads_ns) / 2 else {}


def find_freed_ns(way: str, costs: Sequence[StageCost], loader: Loader) -> int | None:
    """Return what the training thread has less to do for a batch; ``None``: nothing, or not known.

    It is the first to touch the memory of a batch, and lets go of it; where a thread pins batches,
    that one does. Floats may be made by it.
    """
    stage, base = (_FLOATS, FLOATS_ON_HOST) if way == FLOATS_ON_DEVICE else (_TOUCH, _NOW)
    ns = {
        cost.way: cost.sample_ns.mid
        for cost in costs
        if cost.stage == stage and cost.sample_ns is not None
    }
    is_anothers = loader.pin_memory and stage == _TOUCH
    if is_anothers or not loader.batch_size or base not in ns or way not in ns:
        return None
    if stage == _FLOATS:  # copies are priced for themselves
        copy_ns = {
            cost.way: cost.sample_ns.mid
            for cost in costs
            if cost.stage == _COPY and cost.sample_ns is not None
        }
        # Floats that the loop makes are in no pinned memory, whatever the loader does.
        copied_ns = copy_ns.get(_PAGEABLE, copy_ns.get(_NOW, 0.0))
        return round(max(0.0, ns[base] - _FLOAT_BYTES * copied_ns) * loader.batch_size)
    return round((ns[base] - ns[way]) * loader.batch_size)


def _find_copy_factor(way: str, costs: Sequence[StageCost]) -> Estimate | None:
    """Return what is left of copies to the device; ``None``: all, or it is not known."""
    if way == FLOATS_ON_DEVICE:
        return Estimate(*(1 / _FLOAT_BYTES,) * 3)
    speedups = [cost.speedup for cost in costs if (cost.stage, cost.way) == (_COPY, way)]
    if way != _BYTES or not speedups or speedups[0] is None:
        return None
    return Estimate(1 / speedups[0].high, 1 / speedups[0].mid, 1 / speedups[0].low)


def _copies_floats(prices: Prices, loader: Loader) -> bool:
    """Return whether the loop makes floats of a batch of bytes, and copies these."""
    try:
        copied_bytes = windows.sum_copies(prices.evidence, "HtoD").bytes
    except NotObservedError:
        return False
    batch_bytes = loader.batch_bytes if loader.byte_pictures else None
    return batch_bytes is not None and (copied_bytes or 0.0) > _MIN_GROWTH * batch_bytes


def _find_shrink_factor(way: str, costs: Sequence[StageCost]) -> Mapping[str, float]:
    """Return what is left of augmenting, where a way leaves less to shrink; none else."""
    ns = {
        (cost.stage, cost.way): cost.sample_ns.mid for cost in costs if cost.sample_ns is not None
    }
    before, after = ns.get(("shrink", _ALONE)), ns.get(("shrink", way))
    augment_ns = ns.get(("augment", _NOW))
    if before is None or after is None or not augment_ns:
        return {}
    return {"augment": max(0.0, 1 - (before - after) / augment_ns)}
