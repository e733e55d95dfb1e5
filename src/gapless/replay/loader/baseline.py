"""A loader as it was: its measured times, and what they would have been without contention."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.model.estimate import Estimate
from gapless.model.trace import Int64
from gapless.replay.loader import costs, sharing
from gapless.replay.loader.cores import BUNCHING, CROWDING, CoreDemand, Slowdown, find_contention
from gapless.replay.loader.costs import Draw, LoaderInputs

_FIT_ROUNDS: Final = 4  # rounds in which undisturbed times are found
_MAX_WORKER_THREADS: Final = 16.0  # threads of a worker
_HALVINGS: Final = 7
_MIN_STRETCH: Final = 1.1  # fetches wait for processors this much longer than is explained
# Threads of a team look for more to do for a while before they sleep: they are rarely run together.
_GANG: Final = Estimate(0.5, 1.0, 1.0)


class LoaderBaseline(Struct, frozen=True, dict=True):
    """The run as it was: mean times in ns without contention, and how far all was slowed down."""

    inputs: LoaderInputs
    draw: Draw

    @cached_property
    def fetch(self) -> tuple[Int64, Int64, Int64]:
        """Return the running, queueing and blocked times of the drawn rows."""
        return costs.fill_fetch_times(self.inputs, self.draw)

    @cached_property
    def host(self) -> Int64:
        """Return the training thread's own time of the drawn rows."""
        return np.maximum(self.inputs.rows.host[self.draw.rows], 0)

    @cached_property
    def wait_overhead(self) -> Int64:
        """Return what a wait without workers was besides the fetch: indices, pinning."""
        on, queue, off = self.fetch
        return np.maximum(self.inputs.rows.wait[self.draw.rows] - on - queue - off, 0)

    @cached_property
    def equilibrium(self) -> tuple[CoreDemand, Slowdown]:
        """Find the undisturbed times that, slowed down by one another, give what was measured."""
        on, queue, off = (float(column.mean()) for column in self.fetch)
        measured = demand = CoreDemand(
            cores=self.inputs.cores,
            workers=self.inputs.loader.num_workers,
            on=on + queue,
            off=off,
            host=float(self.host.mean()),
            threads=self.inputs.threads,
            pinning=float(self.inputs.pin.mean()) if len(self.inputs.pin) else 0.0,
            floor_ns=self.device,
            worker_threads=self.draw.value_of("each", _worker_threads(self.inputs)),
            **thread_shares(self.inputs, self.inputs.threads, self.draw),
        )
        slowdown = self.slowdown(demand)
        for _ in range(_FIT_ROUNDS):
            demand = replace(
                measured, on=measured.on / slowdown.fetch, host=measured.host / slowdown.host
            )
            slowdown = self.slowdown(demand, slowdown)
        return demand, slowdown

    @property
    def device(self) -> float:
        """Return how long a device works for each batch, in ns: never more than there was time."""
        if not self.inputs.on_device:
            return 0.0
        step = self.inputs.rows.step()
        recorded_ns = self.inputs.device_ns
        if recorded_ns is None:
            return step * self.draw.value_of("device", Estimate(0.0, 0.5, 1.0))
        return min(recorded_ns, step)

    def slowdown(self, demand: CoreDemand, near: Slowdown | None = None) -> Slowdown:
        """Return how far a demand slows itself down; ``near``: the slowdown of a similar one."""
        gang = self.draw.value_of("gang", _GANG)
        start = None if near is None else (near.fetch, near.host)
        crowding, bunching = (
            self.draw.value_of("crowding", CROWDING),
            self.draw.value_of("bunched", BUNCHING),
        )
        return find_contention(demand, gang, crowding, start, bunching)


def _worker_threads(inputs: LoaderInputs) -> Estimate:
    """Return how many threads of a worker the others feel: one that often sleeps gets through.

    If it is known how long the training thread ran, so is how many it felt.
    """
    highest, mid = inputs.worker_threads, inputs.worker_threads**0.5
    if inputs.felt_threads is None:
        return Estimate(1.0, mid, highest)
    return Estimate(1.0, min(mid, inputs.felt_threads), min(highest, max(1.0, inputs.felt_threads)))


def fit_worker_threads(inputs: LoaderInputs) -> LoaderInputs:
    """Find how many threads each worker computes with, from how long its fetches wait to run.

    One, where they wait no longer than so many workers and the training itself explain.
    """
    has_run = inputs.rows.on > 0
    if not inputs.loader.num_workers or not has_run.any():
        return inputs
    run_ns, queued_ns = inputs.rows.on[has_run].sum(), inputs.rows.queue[has_run].sum()
    fetch_stretch = 1 + float(queued_ns) / float(run_ns)

    def explain_stretch(worker_threads: float) -> float:
        return _slowdown_with(inputs, worker_threads).fetch

    if fetch_stretch < _MIN_STRETCH * explain_stretch(1.0):
        return inputs
    fitted_inputs = replace(
        inputs, worker_threads=_find_threads(explain_stretch, fetch_stretch, _MAX_WORKER_THREADS)
    )
    host_stretch = _host_stretch(fitted_inputs)
    if host_stretch is None:
        return fitted_inputs
    return replace(
        fitted_inputs,
        felt_threads=_find_threads(
            lambda worker_threads: _slowdown_with(fitted_inputs, worker_threads).host,
            host_stretch,
            fitted_inputs.worker_threads,
        ),
    )


def _find_threads(stretch: Callable[[float], float], target: float, highest: float) -> float:
    """Return how many threads of each worker stretch something as far as it was."""
    low, high = 1.0, highest
    for _ in range(_HALVINGS):
        mid = (low + high) / 2
        low, high = (mid, high) if stretch(mid) < target else (low, mid)
    return (low + high) / 2


def _slowdown_with(inputs: LoaderInputs, worker_threads: float) -> Slowdown:
    draw = replace(costs.middle_draw(inputs), chances={"each": 1.0})
    demand, _ = LoaderBaseline(replace(inputs, worker_threads=worker_threads), draw).equilibrium
    return find_contention(demand, crowding=0)


def _host_stretch(inputs: LoaderInputs) -> float | None:
    """Return by what factor waiting for a processor stretched the training thread's own work.

    Besides computing it hands over batches, as long as a ready one takes; ``None``: unknown.
    """
    rows = inputs.rows
    if inputs.delay_share is None or not len(inputs.hand):
        return None
    own_ns = float(rows.host.mean()) + min(float(rows.wait.mean()), float(np.median(inputs.hand)))
    run_ns = own_ns - inputs.delay_share * rows.step()
    return own_ns / run_ns if run_ns > 0 else None


def thread_shares(inputs: LoaderInputs, threads: int, draw: Draw) -> dict[str, float]:
    """Return in what share of the training thread's time its other threads compute, and spin.

    They spin between two pieces of work, so that they take processors where they give nothing; how
    much they ran in all is what the training process used besides its one thread. They compute in
    long operators, if windows show these, and at least for as long as what they gain tells.
    """
    if threads == 1:
        return {"together": 1.0, "spinning": 0.0}
    shared_part = sharing.parallel_share(inputs, draw)
    compute = (shared_part / threads) / ((1 - shared_part) + shared_part / threads)
    helped_share = sharing.helper_share(inputs)
    estimate = Estimate(compute, (1 + compute) / 2, 1.0)
    if helped_share is not None:
        estimate = Estimate(0.7 * helped_share, helped_share, min(1.0, 1.2 * helped_share))
    active = min(1.0, max(compute, draw.value_of("spinning", estimate)))
    long_share = max(compute, min(active, inputs.shareable or 0.0))
    together = draw.value_of("together", Estimate(compute, long_share, long_share))
    return {"together": together, "spinning": active - together}
