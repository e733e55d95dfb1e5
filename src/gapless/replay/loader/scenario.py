"""A loader with other settings: what its batches would cost, and what they cost the training.

Everything is relative to the run: what was measured is multiplied by how far processors would be
contended then and are now (``cores``), and only what the run lacks (workers, say) comes from
intervals of other machines (``costs``).
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs
from msgspec.structs import replace

from gapless.model.change import LoaderChange
from gapless.model.estimate import Estimate
from gapless.model.trace import Int64
from gapless.replay.loader import costs, sharing
from gapless.replay.loader.baseline import LoaderBaseline, thread_shares
from gapless.replay.loader.cores import CoreDemand
from gapless.replay.loader.costs import Draw, LoaderInputs
from gapless.replay.loader.queue import Consumer, LoaderCosts, QueueSettings

_PREFETCH: Final = 2  # torch's default
_AHEAD: Final = Estimate(1.0, 1.5, 3.0)  # batches that the training is ahead of a device
_BARRIERS: Final = Estimate(0.0, 0.3, 1.0)  # of blocked time that remains with a single thread
_MIN_FETCH_SHARE: Final = 0.2  # of a fetch that stays, whatever is removed from it

Float = npt.NDArray[np.float64]


class LoaderScenario(Struct, frozen=True):
    """A loader as it would be, and the training that it feeds."""

    settings: QueueSettings
    costs: LoaderCosts
    consumer: Consumer
    host: float  # factor of the training thread's own time
    load: float  # share of the processors that is wanted; above 1: more than there are


def make_scenario(baseline: LoaderBaseline, change: LoaderChange) -> LoaderScenario:
    """Return the loader with other settings; with the run's own, as it was measured."""
    inputs, draw = baseline.inputs, baseline.draw
    base_demand, base_slowdown = baseline.equilibrium
    settings = _queue_settings(inputs, change)
    threads = inputs.threads if inputs.on_device else change.intra_op_threads or inputs.threads
    steady = LoaderBaseline(inputs, replace(draw, rows=_skip_start_rows(inputs, settings, draw)))
    on, off = _fetch_times(steady, change, settings.workers)
    team, barriers = (
        _single_thread_factors(baseline, base_demand) if change.worker_threads == 1 else (1.0, 1.0)
    )
    on, off = on * team, off * barriers
    host = steady.host * _compute_factor(inputs, threads, draw) - (change.freed_ns or 0)
    host = np.maximum(0.0, host)
    run_ns = float((baseline.fetch[0] + baseline.fetch[1]).mean())
    demand = replace(
        base_demand,
        workers=settings.workers,
        threads=threads,
        **thread_shares(inputs, threads, draw),
        on=base_demand.on * float(on.mean()) / max(1.0, run_ns),
        off=float(off.mean()),
        host=base_demand.host * float(host.mean()) / max(1.0, float(baseline.host.mean())),
        worker_threads=base_demand.worker_threads if change.worker_threads is None else 1.0,
    )
    slowdown = (
        base_slowdown
        if change == LoaderChange(change.loader)
        else baseline.slowdown(demand, base_slowdown)
    )
    host_factor = slowdown.host / base_slowdown.host
    on = on * (slowdown.fetch / base_slowdown.fetch)
    n_ahead = round(draw.value_of("device", _AHEAD)) if inputs.on_device else 1
    return LoaderScenario(
        settings,
        _batch_costs(baseline, change, settings, (_round_ns(on + off), host_factor)),
        Consumer(_round_ns(host * host_factor).tolist(), round(baseline.device), n_ahead),
        host_factor * (float(host.sum()) / max(1.0, float(baseline.host.sum()))),
        slowdown.load,
    )


def _skip_start_rows(inputs: LoaderInputs, settings: QueueSettings, draw: Draw) -> Int64:
    """Return rows with those at starts replaced: a persistent worker does not start again.

    Its first fetch, and the training thread's time after the fork, are longer than others.
    """
    position, n_workers = inputs.rows.position, inputs.loader.num_workers
    restarts = n_workers and settings.persistent and not inputs.loader.persistent_workers
    later_rows = np.flatnonzero(position > n_workers)
    if not restarts or not len(later_rows) or inputs.turns.batches is None:
        return draw.rows
    return np.where(
        position[draw.rows] <= n_workers, later_rows[draw.rows % len(later_rows)], draw.rows
    )


def merge_changes(loader: int, changes: Sequence[LoaderChange]) -> LoaderChange:
    """Merge several changes of a loader: later ones win, factors of stages multiply."""
    combined = LoaderChange(loader)
    for change in changes:
        new_settings = {
            name: value
            for name, value in structs.asdict(change).items()
            if name not in ("loader", "stages", "wait") and value is not None
        }
        stages = {
            name: combined.stages.get(name, 1.0) * change.stages.get(name, 1.0)
            for name in (*combined.stages, *change.stages)
        }
        combined = structs.replace(
            combined, **new_settings, stages=stages, wait=combined.wait and change.wait
        )
    return combined


def _queue_settings(inputs: LoaderInputs, change: LoaderChange) -> QueueSettings:
    loader, batches = inputs.loader, inputs.turns.batches
    workers = loader.num_workers if change.num_workers is None else change.num_workers
    persistent = change.persistent_workers
    in_order = loader.in_order if change.in_order is None else change.in_order
    return QueueSettings(
        workers=workers,
        prefetch=change.prefetch_factor or loader.prefetch_factor or _PREFETCH,
        in_order=in_order is not False,
        pinned=loader.pin_memory if change.pin_memory is None else change.pin_memory,
        persistent=loader.persistent_workers if persistent is None else persistent,
        batches=batches,
    )


def _fetch_times(
    baseline: LoaderBaseline, change: LoaderChange, workers: int
) -> tuple[Float, Float]:
    """Return what fetches take on and off a processor, in ns, with the contention of the run."""
    inputs, draw = baseline.inputs, baseline.draw
    run_ns, queue_ns, blocked_ns = baseline.fetch
    on, off = (run_ns + queue_ns).astype(np.float64), blocked_ns.astype(np.float64)
    if not change.wait:
        return on * 0.0, off * 0.0
    share_ns = inputs.bytes * draw.value_of("shared", costs.SHARED)
    if workers and not inputs.loader.num_workers:
        on = on * sharing.parallel_factor(inputs, draw) + share_ns
    elif inputs.loader.num_workers and not workers:
        on = np.maximum(on - share_ns, on * _MIN_FETCH_SHARE) / sharing.parallel_factor(
            inputs, draw
        )
    on_factor, off_factor = costs.stage_factors(inputs, change.stages)
    return on * on_factor, off * off_factor + (change.delay_ns or 0)


def _single_thread_factors(
    baseline: LoaderBaseline, base_demand: CoreDemand
) -> tuple[float, float]:
    """Return the factors of time on and off a processor, if a worker computes with one thread.

    It does what its threads did: at least what one of them ran, at most what all that were ready
    did, as far as they did not spin, and no more than the processors they demanded. It no longer
    waits for the last of them, which was some or all of the time that they were blocked.
    """
    worker_threads = baseline.inputs.worker_threads
    run_ns = float(baseline.fetch[0].mean()) * baseline.draw.value_of(
        "team", Estimate(1.0, worker_threads**0.5, worker_threads)
    )
    return min(
        base_demand.worker_threads, run_ns / max(1.0, base_demand.on)
    ), baseline.draw.value_of("barriers", _BARRIERS)


def _compute_factor(inputs: LoaderInputs, n_threads: int, draw: Draw) -> float:
    """Return the factor of computing with another number of threads (Amdahl 1967)."""
    shared = sharing.parallel_share(inputs, draw)
    return ((1 - shared) + shared / n_threads) / ((1 - shared) + shared / inputs.threads)


def _batch_costs(
    baseline: LoaderBaseline,
    change: LoaderChange,
    settings: QueueSettings,
    fetch_costs: tuple[Int64, float],
) -> LoaderCosts:
    """Return what batches cost; ``fetch_costs``: their fetches, the factor of the training thread.

    A hand-over that was measured is part of the training thread's work, too.
    """
    fetch, host_factor = fetch_costs[0], fetch_costs[1] if len(baseline.inputs.hand) else 1.0
    pin, transit = (
        _pin_costs(baseline, change, settings),
        _transit_ns(baseline.inputs, baseline.draw),
    )
    take, hand = _hand_over_costs(baseline, settings)
    factor = change.stages.get("hand-over", 1.0) * host_factor
    saved_ns = baseline.inputs.sampler * (1 - change.stages.get(costs.SAMPLER, 1.0))
    hand = [round(max(0.0, hand_ns - saved_ns) * factor) for hand_ns in hand]
    take = [round(take_ns * factor) for take_ns in take]
    if not change.wait:
        take, hand, transit = [0], [0], 0
    starts = _start_costs(baseline, settings)
    return LoaderCosts(
        fetch.tolist(), take, pin, hand, transit if settings.workers else 0, **starts
    )


def _hand_over_costs(
    baseline: LoaderBaseline, settings: QueueSettings
) -> tuple[list[int], list[int]]:
    """Return what taking a batch off the queue costs, and handing it over, in ns.

    Where a thread pins, it takes batches; the training thread finds them ready.
    """
    inputs, draw = baseline.inputs, baseline.draw
    if not settings.workers:
        was_pinned = inputs.loader.pin_memory and len(inputs.pin)
        overhead = baseline.wait_overhead - (
            round(float(np.median(inputs.pin))) if was_pinned else 0
        )
        is_in_process = inputs.loader.num_workers == 0
        return [0], np.maximum(overhead, 0).tolist() if is_in_process else [inputs.dispatch]
    if len(inputs.hand):
        number = np.arange(len(draw.rows)) % len(inputs.hand)
        hand_ns = inputs.hand[number]
        hand = np.minimum(hand_ns, inputs.dispatch)
        if settings.pinned and inputs.loader.pin_memory:
            return [0], hand_ns.tolist()
        return (hand_ns - hand).tolist(), hand.tolist()
    hand_over_ns = draw.value_of("hand-over", costs.HAND_OVER)
    tensors_ns = max(1, inputs.tensors or 1) * draw.value_of("touch", costs.TENSOR)
    take = round(hand_over_ns + tensors_ns + inputs.bytes * draw.value_of("touch", costs.TOUCH))
    overhead = (
        int(np.median(baseline.wait_overhead)) - inputs.sampler
        if inputs.loader.num_workers == 0
        else 0
    )
    own_ns = inputs.dispatch or max(0, overhead)
    own_ns = min(own_ns, round(hand_over_ns))  # the rest of a wait without workers may be anything
    own_ns += 0 if inputs.dispatch else inputs.sampler
    return [take], [own_ns + round(hand_over_ns / 4) if settings.pinned else own_ns]


def _pin_costs(
    baseline: LoaderBaseline, change: LoaderChange, settings: QueueSettings
) -> list[int]:
    was_pinned = len(baseline.inputs.pin) > 0
    if not change.wait or not (
        settings.workers or was_pinned
    ):  # unmarked, it belongs to the rest of the wait
        return [0]
    factor = change.stages.get("pin", 1.0)
    if was_pinned:
        return [round(pin_ns * factor) for pin_ns in baseline.inputs.pin.tolist()]
    return [round(costs.pin_cost(baseline.inputs, baseline.draw) * factor)]


def _transit_ns(inputs: LoaderInputs, draw: Draw) -> int:
    return (
        round(draw.value_of("transit", costs.TRANSIT)) if inputs.transit is None else inputs.transit
    )


def _start_costs(baseline: LoaderBaseline, settings: QueueSettings) -> dict[str, int]:
    """Return what an iteration costs, in ns, where iterations were seen to end."""
    inputs, draw, turns = baseline.inputs, baseline.draw, baseline.inputs.turns
    n_workers, n_before = settings.workers, inputs.loader.num_workers
    if turns.batches is None or not n_workers:
        return {"reset": turns.begin or 0} if not n_before else {}
    reset = round(draw.value_of("start", costs.RESET))
    if n_before and not inputs.loader.persistent_workers and turns.begin is not None:
        fork, begin = turns.begin / n_before, (turns.first_fetch or 0) + inputs.first_batch_ns
        close = (turns.close or 0) * n_workers / n_before
    else:
        fork = draw.value_of("start", costs.start_cost(inputs, "fork", costs.FORK))
        begin = draw.value_of("start", costs.BEGIN)
        close = draw.value_of("start", costs.start_cost(inputs, "end_worker", costs.CLOSE))
    if settings.persistent:
        begin_ns = turns.begin if inputs.loader.persistent_workers else None
        reset_ns = reset if begin_ns is None else begin_ns
        return {"reset": reset_ns, "fork": round(fork), "begin": round(begin)}
    return {"fork": round(fork), "begin": round(begin), "close": round(close)}


def _round_ns(values: npt.NDArray[Any]) -> Int64:
    return np.rint(values).astype(np.int64)
