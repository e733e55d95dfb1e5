"""A loader with other settings: what its batches would cost, and what they cost the training.

Everything is relative to the run: what was measured is multiplied by how far processors would be
contended then and are now (``cores``), and only what the run has not (workers, say) comes from
intervals of other machines (``service``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import structs

from gapless.model.change import Feed
from gapless.model.interval import Interval
from gapless.model.trace import Int64
from gapless.replay import service, sharing
from gapless.replay.asrun import AsRun, together
from gapless.replay.cores import Demand
from gapless.replay.queue import Consumer, Costs, Settings
from gapless.replay.service import Draw, Inputs

_PREFETCH: Final = 2  # of torch, where nothing is said
_AHEAD: Final = Interval(1.0, 1.5, 3.0)  # batches that the training is ahead of a device
_BARRIERS: Final = Interval(0.0, 0.3, 1.0)  # of blocked time that is left to a single thread
_LEAST: Final = 0.2  # of a fetch that stays, whatever is taken off it

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """A loader as it would be, and the training that it feeds."""

    settings: Settings
    costs: Costs
    consumer: Consumer
    host: float  # factor of the training thread's own time
    load: float  # share of the processors that is wanted; above 1: more than there are


def plan(run: AsRun, feed: Feed) -> Plan:
    """Give the loader with other settings; with those of the run, as it was measured."""
    inputs, draw = run.inputs, run.draw
    before, then = run.settled
    settings = _settings(inputs, feed)
    threads = inputs.threads if inputs.on_device else feed.intra_op_threads or inputs.threads
    later = AsRun(inputs, replace(draw, rows=_without_starts(inputs, settings, draw)))
    on, off = _fetch(later, feed, settings.workers)
    team, barriers = _alone(run, before) if feed.worker_threads == 1 else (1.0, 1.0)
    on, off = on * team, off * barriers
    host = later.host * _computing(inputs, threads, draw)
    ran = float((run.fetch[0] + run.fetch[1]).mean())
    demand = replace(
        before,
        workers=settings.workers,
        threads=threads,
        **together(inputs, threads, draw),
        on=before.on * float(on.mean()) / max(1.0, ran),
        off=float(off.mean()),
        host=before.host * float(host.mean()) / max(1.0, float(run.host.mean())),
        each=before.each if feed.worker_threads is None else 1.0,
    )
    now = then if feed == Feed(feed.loader) else run.slowed(demand, then)
    slower = now.host / then.host
    on = on * (now.fetch / then.fetch)
    ahead = round(draw.of("device", _AHEAD)) if inputs.on_device else 1
    return Plan(
        settings,
        _costs(run, feed, settings, (_whole(on + off), slower)),
        Consumer(_whole(host * slower).tolist(), round(run.device), ahead),
        slower * (float(host.sum()) / max(1.0, float(run.host.sum()))),
        now.load,
    )


def _without_starts(inputs: Inputs, settings: Settings, draw: Draw) -> Int64:
    """Give rows in whose place others stand: a worker that stays begins no iteration anew.

    Its first fetch, and the training thread's time after the fork, are longer than others.
    """
    position, had = inputs.rows.position, inputs.loader.num_workers
    starts = had and settings.persistent and not inputs.loader.persistent_workers
    old = np.flatnonzero(position > had)
    if not starts or not len(old) or inputs.turns.batches is None:
        return draw.rows
    return np.where(position[draw.rows] <= had, old[draw.rows % len(old)], draw.rows)


def merged(loader: int, changes: Sequence[Feed]) -> Feed:
    """Make one of several changes of a loader: later ones win, factors of stages multiply."""
    found = Feed(loader)
    for one in changes:
        told = {
            name: value
            for name, value in structs.asdict(one).items()
            if name not in ("loader", "stages", "wait") and value is not None
        }
        stages = {
            name: found.stages.get(name, 1.0) * one.stages.get(name, 1.0)
            for name in (*found.stages, *one.stages)
        }
        found = structs.replace(found, **told, stages=stages, wait=found.wait and one.wait)
    return found


def _settings(inputs: Inputs, feed: Feed) -> Settings:
    loader, batches = inputs.loader, inputs.turns.batches
    workers = loader.num_workers if feed.num_workers is None else feed.num_workers
    persistent = feed.persistent_workers
    in_order = loader.in_order if feed.in_order is None else feed.in_order
    return Settings(
        workers=workers,
        prefetch=feed.prefetch_factor or loader.prefetch_factor or _PREFETCH,
        in_order=in_order is not False,
        pinned=loader.pin_memory if feed.pin_memory is None else feed.pin_memory,
        persistent=loader.persistent_workers if persistent is None else persistent,
        batches=batches,
    )


def _fetch(run: AsRun, feed: Feed, workers: int) -> tuple[Float, Float]:
    """Give what fetches take on a processor and off it, in ns, as contended as they were."""
    inputs, draw = run.inputs, run.draw
    ran, queued, blocked = run.fetch
    on, off = (ran + queued).astype(np.float64), blocked.astype(np.float64)
    if not feed.wait:
        return on * 0.0, off * 0.0
    shared = inputs.bytes * draw.of("shared", service.SHARED)
    if workers and not inputs.loader.num_workers:
        on = on * sharing.parallel(inputs, draw) + shared
    elif inputs.loader.num_workers and not workers:
        on = np.maximum(on - shared, on * _LEAST) / sharing.parallel(inputs, draw)
    more, less = service.by_stages(inputs, feed.stages)
    return on * more, off * less + (feed.delay_ns or 0)


def _alone(run: AsRun, before: Demand) -> tuple[float, float]:
    """Give the factors of time on and off a processor, if a worker computes with one thread.

    It does what its threads did: at least what one of them ran, at most what all that were ready
    did, as far as they did not spin, and no more than what processors were asked for by them.
    Nobody waits for the last of them any more, which was some of the time that they were blocked,
    or all of it.
    """
    each = run.inputs.each
    ran = float(run.fetch[0].mean()) * run.draw.of("team", Interval(1.0, each**0.5, each))
    return min(before.each, ran / max(1.0, before.on)), run.draw.of("barriers", _BARRIERS)


def _computing(inputs: Inputs, after: int, draw: Draw) -> float:
    """Give the factor of computing with another number of threads (Amdahl 1967)."""
    part = sharing.shared_part(inputs, draw)
    return ((1 - part) + part / after) / ((1 - part) + part / inputs.threads)


def _costs(run: AsRun, feed: Feed, settings: Settings, taken: tuple[Int64, float]) -> Costs:
    """Give what batches cost; ``taken``: their fetches, how much longer the training thread's work.

    A hand-over that was measured is its work, too.
    """
    fetch, slower = taken[0], taken[1] if len(run.inputs.hand) else 1.0
    pin, transit = _pin(run, feed, settings), _transit(run.inputs, run.draw)
    take, hand = _handing(run, settings)
    factor = feed.stages.get("hand-over", 1.0) * slower
    less = run.inputs.sampler * (1 - feed.stages.get(service.SAMPLER, 1.0))
    hand = [round(max(0.0, one - less) * factor) for one in hand]
    take = [round(one * factor) for one in take]
    if not feed.wait:
        take, hand, transit = [0], [0], 0
    starts = _starts(run, settings)
    return Costs(fetch.tolist(), take, pin, hand, transit if settings.workers else 0, **starts)


def _handing(run: AsRun, settings: Settings) -> tuple[list[int], list[int]]:
    """Give what is taken off the queue, and what hands over, in ns.

    Where a thread pins, it takes; the training thread finds batches that are there.
    """
    inputs, draw = run.inputs, run.draw
    if not settings.workers:
        pinned = inputs.loader.pin_memory and len(inputs.pin)
        rest = run.rest - (round(float(np.median(inputs.pin))) if pinned else 0)
        alone = inputs.loader.num_workers == 0
        return [0], np.maximum(rest, 0).tolist() if alone else [inputs.dispatch]
    if len(inputs.hand):
        number = np.arange(len(draw.rows)) % len(inputs.hand)
        whole = inputs.hand[number]
        hand = np.minimum(whole, inputs.dispatch)
        if settings.pinned and inputs.loader.pin_memory:
            return [0], whole.tolist()
        return (whole - hand).tolist(), hand.tolist()
    each = draw.of("hand-over", service.HAND_OVER)
    parts = max(1, inputs.tensors or 1) * draw.of("touch", service.TENSOR)
    take = round(each + parts + inputs.bytes * draw.of("touch", service.TOUCH))
    rest = int(np.median(run.rest)) - inputs.sampler if inputs.loader.num_workers == 0 else 0
    own = inputs.dispatch or max(0, rest)
    own = min(own, round(each))  # the rest of a wait without workers may be anything
    own += 0 if inputs.dispatch else inputs.sampler
    return [take], [own + round(each / 4) if settings.pinned else own]


def _pin(run: AsRun, feed: Feed, settings: Settings) -> list[int]:
    marked = len(run.inputs.pin) > 0
    if not feed.wait or not (settings.workers or marked):  # unmarked, it is of the wait's rest
        return [0]
    factor = feed.stages.get("pin", 1.0)
    if marked:
        return [round(one * factor) for one in run.inputs.pin.tolist()]
    return [round(service.pin_cost(run.inputs, run.draw) * factor)]


def _transit(inputs: Inputs, draw: Draw) -> int:
    return round(draw.of("transit", service.TRANSIT)) if inputs.transit is None else inputs.transit


def _starts(run: AsRun, settings: Settings) -> dict[str, int]:
    """Give what an iteration costs, in ns, where iterations were seen to end."""
    inputs, draw, turns = run.inputs, run.draw, run.inputs.turns
    many, had = settings.workers, inputs.loader.num_workers
    if turns.batches is None or not many:
        return {"reset": turns.begin or 0} if not had else {}
    reset = round(draw.of("start", service.RESET))
    if had and not inputs.loader.persistent_workers and turns.begin is not None:
        fork, begin = turns.begin / had, (turns.first or 0) + inputs.first
        close = (turns.close or 0) * many / had
    else:
        fork = draw.of("start", service.start_cost(inputs, "fork", service.FORK))
        begin = draw.of("start", service.BEGIN)
        close = draw.of("start", service.start_cost(inputs, "end_worker", service.CLOSE))
    if settings.persistent:
        seen = turns.begin if inputs.loader.persistent_workers else None
        again = reset if seen is None else seen
        return {"reset": again, "fork": round(fork), "begin": round(begin)}
    return {"fork": round(fork), "begin": round(begin), "close": round(close)}


def _whole(values: npt.NDArray[Any]) -> Int64:
    return np.rint(values).astype(np.int64)
