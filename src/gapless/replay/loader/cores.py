"""Contention for processors between workers, the training's threads and the thread that pins.

A fetch is time on a processor and time off it (storage, sleep): only the first stretches where more
threads are ready than there are processors. How many are ready at a time follows from how long all
take, and the other way round: a fixed point. Besides, computing in company takes longer: memory,
caches, processors that share a core. Measured on two processors with a core each, the time on a
processor of Python, of decoding and of passing over memory grew by 1, 3 to 5 and 9 % as the other
one worked; steps on 16 processors by 9 % with 4 workers and 30 % with 16. Two threads of one core
do some 1.2 to 1.5 times as much as one, and which processors share one is not recorded. It is
assumed to grow with the load, and to be known badly.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from gapless.model.estimate import Estimate, binomial_chances

BUNCHING: Final = Estimate(0.0, 0.3, 1.0)  # how far workers are busy by chance, not in turn
CROWDING: Final = Estimate(0.0, 0.15, 0.65)  # what is on a processor takes longer at full load
_MAX_ROUNDS: Final = 20
_TOLERANCE: Final = 3e-3
_TINY: Final = 1e-9
_PAIR: Final = 2  # threads that wait for one another


class CoreDemand(Struct, frozen=True):
    """What a training and its workers need for each batch, in ns, as if nobody else ran."""

    cores: float  # processors of this rank: its part of the host's
    workers: int
    on: float  # of a fetch, on a processor
    off: float  # of a fetch, off it
    host: float  # of the training thread, between hand-over and question
    threads: int = 1  # threads that compute with it …
    together: float = 1.0  # … in this share of its time …
    spinning: float = 0.0  # … and look for more to do in this; else it is alone
    pinning: float = 0.0
    floor_ns: float = 0.0  # a batch takes so long whatever the processors do: a device
    # threads that are ready while a worker is: it may compute with several
    worker_threads: float = 1.0


class Slowdown(Struct, frozen=True):
    """The factors by which time on a processor stretches, and the demanded share of processors."""

    fetch: float
    host: float
    load: float


class _BusyShares(Struct, frozen=True):
    """The shares of time in which each kind of thread wants a processor."""

    worker: float  # each of them
    host: float
    pinning: float


def find_contention(
    demand: CoreDemand,
    gang: float = 0.5,
    crowding: float = CROWDING.mid,
    start: tuple[float, float] | None = None,
    bunching: float = BUNCHING.mid,
) -> Slowdown:
    """Return how far threads slow each other down.

    ``gang``: threads that compute together wait for the last of them; 0: processors are divided
    evenly among all that are ready, 1: no thread is moved to another processor, and the fullest one
    decides, or that two of them have one at once by chance alone. ``start``: where to begin, if
    something near the answer is known. ``bunching``: 0: each hand-over starts one worker, so that
    about as many are busy at any time; 1: how many are busy is left to chance.
    """
    fetch, host = start or (1.0, 1.0)
    busy = _busy_shares(demand, fetch, host)
    for _ in range(_MAX_ROUNDS if demand.workers else 0):  # alone, nobody is in the way
        next_fetch, next_host = _stretch_factors(demand, busy, gang, bunching)
        is_close = abs(next_fetch - fetch) + abs(next_host - host) < _TOLERANCE
        fetch, host = (fetch + next_fetch) / 2, (host + next_host) / 2
        busy = _busy_shares(demand, fetch, host)
        if is_close:
            break
    load = _processor_load(demand, busy)
    if not demand.workers:
        return Slowdown(1.0, 1.0, load)
    # The training thread's time already includes the company of its own threads.
    company = demand.workers * demand.worker_threads * busy.worker + busy.pinning
    company_load = company / max(demand.cores, _TINY)
    fetch_crowd, host_crowd = (1 + crowding * min(1.0, share) for share in (load, company_load))
    return Slowdown(fetch * fetch_crowd, host * host_crowd, load)


def mean_batch_ns(demand: CoreDemand, fetch: float = 1.0, host: float = 1.0) -> float:
    """Return the mean time of a batch, in ns, where no fetch is longer than another."""
    fetch_ns = demand.off + demand.on * fetch
    if not demand.workers:
        return max(demand.floor_ns, demand.host * host + fetch_ns + demand.pinning, _TINY)
    return max(
        demand.floor_ns, demand.host * host, fetch_ns / demand.workers, demand.pinning, _TINY
    )


def _busy_shares(demand: CoreDemand, fetch: float, host: float) -> _BusyShares:
    batch_ns = mean_batch_ns(demand, fetch, host)
    own_fetch = 0 if demand.workers else demand.on
    return _BusyShares(
        worker=min(1.0, demand.on * fetch / batch_ns / demand.workers) if demand.workers else 0.0,
        host=min(1.0, (demand.host * host + own_fetch) / batch_ns),
        pinning=min(1.0, demand.pinning / batch_ns),
    )


def _processor_load(demand: CoreDemand, busy: _BusyShares) -> float:
    ready = demand.workers * demand.worker_threads * busy.worker + busy.pinning + busy.host
    company = (demand.threads - 1) * (demand.together + demand.spinning) * busy.host
    return (ready + company) / max(demand.cores, _TINY)


def _stretch_factors(
    demand: CoreDemand, busy: _BusyShares, gang: float, bunching: float
) -> tuple[float, float]:
    """Return by what factors fetches and the training thread are stretched, in the mean.

    Each of them is itself present: among the busy ones, one meets the others. Company is weighted
    by its duration, so that work done per time is added up, and the shares of the processors never
    sum to less than all of them while enough are ready.
    """
    cores, per_worker = max(demand.cores, _TINY), demand.worker_threads
    chances = _busy_chances(demand.workers, busy.worker, bunching)
    met_chances = _meeting_chances(chances)
    alone_share = 1 - demand.together - demand.spinning
    shares = ((demand.together, gang), (demand.spinning, 0.0), (alone_share, 0.0))
    work_done = host = 0.0
    for number, (share, share_gang) in enumerate(shares):
        threads = demand.threads if number < 2 else 1  # noqa: PLR2004 - the last is alone
        ready = [per_worker * (k + 1) + threads + busy.pinning for k in range(len(met_chances))]
        work_done += (
            busy.host
            * share
            * _work_rate(met_chances, [max(1.0, n_ready / cores) for n_ready in ready])
        )
        ready = [per_worker * k + threads + busy.pinning for k in range(len(chances))]
        host += share / _work_rate(
            chances,
            [
                _gang_stretch(n_ready, cores, share_gang if threads > 1 else 0.0)
                for n_ready in ready
            ],
        )
    ready = [per_worker * (k + 1) + busy.pinning for k in range(len(met_chances))]
    work_done += (1 - busy.host) * _work_rate(
        met_chances, [max(1.0, n_ready / cores) for n_ready in ready]
    )
    return 1 / work_done, host


def _gang_stretch(ready: float, cores: float, gang: float) -> float:
    """Return how far threads that wait for the last of them are stretched.

    They are not scheduled together (Ousterhout 1982). A part of a processor that others take is one
    more thread on it for so long.
    """
    even = max(1.0, ready / cores)
    if not gang or ready + 1 <= cores:
        return even
    processors = max(1, ceil(cores - _TINY))
    n_taken = processors - cores
    work_rate = (1 - n_taken) / pair_stretch(ready, processors)
    work_rate += n_taken / pair_stretch(ready + 1, processors)
    return even ** (1 - gang) * max(even, 1 / work_rate) ** gang


def pair_stretch(ready: float, processors: int) -> float:
    """Return how far two threads are stretched that go on only while both have a processor.

    Any of those that are ready may have it: of three on two processors, both run a third of the
    time. More than two sleep while they wait, and are assumed to suffer no more than two.
    """
    fullest = max(1.0, float(ceil(ready / processors - _TINY)))
    if processors < _PAIR:
        return fullest
    return max(fullest, ready * (ready - 1) / (processors * (processors - 1)))


def _busy_chances(n_workers: int, busy_share: float, bunching: float) -> list[float]:
    """Return the probabilities that 0, 1 … workers are busy: in turn, as far as not by chance."""
    mean = n_workers * busy_share
    floor = min(n_workers - 1, int(mean))
    chances = [bunching * chance for chance in binomial_chances(n_workers, busy_share)]
    chances[floor] += (1 - bunching) * (1 - (mean - floor))
    chances[floor + 1] += (1 - bunching) * (mean - floor)
    return chances


def _meeting_chances(chances: Sequence[float]) -> list[float]:
    """Return the probabilities that a busy worker meets 0, 1 … others (size-biased)."""
    weights = [(number + 1) * chance for number, chance in enumerate(chances[1:])]
    total = sum(weights)
    return (
        [weight / total for weight in weights]
        if total > _TINY
        else [1.0] + [0.0] * (len(chances) - 2)
    )


def _work_rate(chances: Sequence[float], factors: Sequence[float]) -> float:
    """Return the work done per time, relative to that done alone."""
    return sum(chance / factor for chance, factor in zip(chances, factors, strict=True))
