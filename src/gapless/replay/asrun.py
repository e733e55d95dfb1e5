"""A loader as it was: its measured times, and what they would have been with nobody else there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from gapless.model.interval import Interval
from gapless.model.trace import Int64
from gapless.replay import service, sharing
from gapless.replay.cores import BUNCHED, CROWDING, Demand, Slowed, contended
from gapless.replay.service import Draw, Inputs

_FITTED: Final = 4  # rounds in which undisturbed times are found
_MOST_EACH: Final = 16.0  # threads of a worker
_HALVINGS: Final = 7
_TOLD: Final = 1.1  # fetches wait for processors so much more than is explained
_GANG: Final = Interval(0.0, 0.5, 1.0)


@dataclass(frozen=True)
class AsRun:
    """The run as it was: means in ns as if nobody else had run, and how far all was slowed down."""

    inputs: Inputs
    draw: Draw

    @cached_property
    def fetch(self) -> tuple[Int64, Int64, Int64]:
        """Give on, queue and off of the drawn rows."""
        return service.filled(self.inputs, self.draw)

    @cached_property
    def host(self) -> Int64:
        """Give the training thread's own time of the drawn rows."""
        return np.maximum(self.inputs.rows.host[self.draw.rows], 0)

    @cached_property
    def rest(self) -> Int64:
        """Give what a wait without workers was beside the fetch: indices, pinning."""
        on, queue, off = self.fetch
        return np.maximum(self.inputs.rows.wait[self.draw.rows] - on - queue - off, 0)

    @cached_property
    def settled(self) -> tuple[Demand, Slowed]:
        """Find what undisturbed times give, slowed down by one another, what was measured."""
        on, queue, off = (float(one.mean()) for one in self.fetch)
        seen = demand = Demand(
            cores=self.inputs.cores,
            workers=self.inputs.loader.num_workers,
            on=on + queue,
            off=off,
            host=float(self.host.mean()),
            threads=self.inputs.threads,
            pinning=float(self.inputs.pin.mean()) if len(self.inputs.pin) else 0.0,
            least=self.device,
            each=self.draw.of("each", _each(self.inputs)),
            **together(self.inputs, self.inputs.threads, self.draw),
        )
        slowed = self.slowed(demand)
        for _ in range(_FITTED):
            demand = replace(seen, on=seen.on / slowed.fetch, host=seen.host / slowed.host)
            slowed = self.slowed(demand, slowed)
        return demand, slowed

    @property
    def device(self) -> float:
        """Give what a device works on for each batch, in ns: never more than there was time for."""
        if not self.inputs.on_device:
            return 0.0
        step = self.inputs.rows.step()
        known = self.inputs.device_ns
        if known is None:
            return step * self.draw.of("device", Interval(0.0, 0.5, 1.0))
        return min(known, step)

    def slowed(self, demand: Demand, near: Slowed | None = None) -> Slowed:
        """Give how far a demand slows itself down; ``near``: what a like one was slowed down by."""
        gang = self.draw.of("gang", _GANG)
        start = None if near is None else (near.fetch, near.host)
        crowding, bunched = self.draw.of("crowding", CROWDING), self.draw.of("bunched", BUNCHED)
        return contended(demand, gang, crowding, start, bunched)


def _each(inputs: Inputs) -> Interval:
    """Give how many threads of a worker the others feel: one that often sleeps is let through.

    Who knows how long the training thread ran knows how many it felt.
    """
    most, mid = inputs.each, inputs.each**0.5
    if inputs.felt is None:
        return Interval(1.0, mid, most)
    return Interval(1.0, min(mid, inputs.felt), min(most, max(1.0, inputs.felt)))


def fitted(inputs: Inputs) -> Inputs:
    """Find how many threads each worker computes with, from how long its fetches wait to run.

    One, where they wait no longer than so many workers and the training itself explain.
    """
    known = inputs.rows.on > 0
    if not inputs.loader.num_workers or not known.any():
        return inputs
    ran, queued = inputs.rows.on[known].sum(), inputs.rows.queue[known].sum()
    seen = 1 + float(queued) / float(ran)

    def explained(each: float) -> float:
        return _stretched(inputs, each).fetch

    if seen < _TOLD * explained(1.0):
        return inputs
    found = replace(inputs, each=_least(explained, seen, _MOST_EACH))
    stretch = _delayed(found)
    if stretch is None:
        return found
    return replace(
        found, felt=_least(lambda each: _stretched(found, each).host, stretch, found.each)
    )


def _least(stretch: Callable[[float], float], seen: float, most: float) -> float:
    """Give how many threads of each worker stretch something as far as it was."""
    low, high = 1.0, most
    for _ in range(_HALVINGS):
        mid = (low + high) / 2
        low, high = (mid, high) if stretch(mid) < seen else (low, mid)
    return (low + high) / 2


def _stretched(inputs: Inputs, each: float) -> Slowed:
    draw = replace(service.middle(inputs), chances={"each": 1.0})
    demand, _ = AsRun(replace(inputs, each=each), draw).settled
    return contended(demand, crowding=0)


def _delayed(inputs: Inputs) -> float | None:
    """Give by what factor waiting for a processor stretched the training thread's own work.

    It hands batches over beside computing, as long as one takes that is there; ``None``: unknown.
    """
    rows = inputs.rows
    if inputs.delayed is None or not len(inputs.hand):
        return None
    own = float(rows.host.mean()) + min(float(rows.wait.mean()), float(np.median(inputs.hand)))
    ran = own - inputs.delayed * rows.step()
    return own / ran if ran > 0 else None


def together(inputs: Inputs, threads: int, draw: Draw) -> dict[str, float]:
    """Give in what share of the training thread's time its other threads compute, and spin.

    They spin between two pieces of work, so that they take processors where they give nothing; how
    much they ran in all is what the training process used beside its one thread.
    """
    if threads == 1:
        return {"together": 1.0, "spinning": 0.0}
    part = sharing.shared_part(inputs, draw)
    compute = (part / threads) / ((1 - part) + part / threads)
    seen = sharing.helped(inputs)
    known = Interval(compute, (1 + compute) / 2, 1.0)
    if seen is not None:
        known = Interval(0.7 * seen, seen, min(1.0, 1.2 * seen))
    active = min(1.0, max(compute, draw.of("spinning", known)))
    return {"together": compute, "spinning": active - compute}
