"""Contention for processors between workers, the training's threads and the thread that pins.

A fetch is time on a processor and time off it (storage, sleep): only the first stretches where
more threads are ready than there are processors. How many are ready at a time follows from how long
all take, and the other way round: a fixed point. Beside that, who computes in company takes longer:
memory, caches, processors that share a core. Measured on two processors with a core each, the time
on a processor of Python, of decoding and of passing over memory grew by 1, 3 to 5 and 9 % as the
other one worked; steps on 16 processors by 9 % with 4 workers and 30 % with 16. Two threads of one
core do some 1.2 to 1.5 times as much as one, and which processors share one is not recorded. It is
taken to grow with the load, and to be known badly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb
from typing import Final

from gapless.model.interval import Interval

BUNCHED: Final = Interval(0.0, 0.3, 1.0)  # how far workers are busy by chance, not in turn
CROWDING: Final = Interval(0.0, 0.15, 0.65)  # what is on a processor takes longer at full load
_ROUNDS: Final = 20
_CLOSE: Final = 3e-3
_TINY: Final = 1e-9


@dataclass(frozen=True)
class Demand:
    """What a training and its workers need for each batch, in ns, as if nobody else ran."""

    cores: float  # processors of this rank: its part of the host's
    workers: int
    on: float  # of a fetch, on a processor
    off: float  # of a fetch, off it
    host: float  # of the training thread, between hand-over and question
    threads: int = 1  # that compute with it …
    together: float = 1.0  # … in this share of its time …
    spinning: float = 0.0  # … and look for more to do in this; else it is alone
    pinning: float = 0.0
    least: float = 0.0  # a batch takes so long whatever the processors do: a device
    each: float = 1.0  # threads that are ready while a worker is: it may compute with several


@dataclass(frozen=True)
class Slowed:
    """By what factors time on a processor stretches, and what share of the processors is wanted."""

    fetch: float
    host: float
    load: float


@dataclass(frozen=True)
class _Busy:
    """The shares of time in which each kind of thread wants a processor."""

    worker: float  # each of them
    host: float
    pinning: float


def contended(
    demand: Demand,
    gang: float = 0.5,
    crowding: float = CROWDING.mid,
    start: tuple[float, float] | None = None,
    bunched: float = BUNCHED.mid,
) -> Slowed:
    """Give how far all is slowed down by one another.

    ``gang``: threads that compute together wait for the last of them; 0: processors are shared
    out evenly among all that are ready, 1: nobody is moved to another processor, and the fullest
    one decides, or that two of them have one at once by chance alone. ``start``: where to begin, if
    something near the answer is known. ``bunched``: 0: each hand-over sets one worker to work, so
    that about as many are busy at any time; 1: how many are is left to chance.
    """
    fetch, host = start or (1.0, 1.0)
    busy = _busy(demand, fetch, host)
    for _ in range(_ROUNDS if demand.workers else 0):  # alone, nobody is in the way
        more, longer = _stretched(demand, busy, gang, bunched)
        near = abs(more - fetch) + abs(longer - host) < _CLOSE
        fetch, host = (fetch + more) / 2, (host + longer) / 2
        busy = _busy(demand, fetch, host)
        if near:
            break
    load = _load(demand, busy)
    if not demand.workers:
        return Slowed(1.0, 1.0, load)
    # What the training thread takes holds the company of its own threads already.
    others = demand.workers * demand.each * busy.worker + busy.pinning
    beside = others / max(demand.cores, _TINY)
    crowd, crowded = (1 + crowding * min(1.0, one) for one in (load, beside))
    return Slowed(fetch * crowd, host * crowded, load)


def pace(demand: Demand, fetch: float = 1.0, host: float = 1.0) -> float:
    """Give the mean time of a batch, in ns, where no fetch is longer than another."""
    made = demand.off + demand.on * fetch
    if not demand.workers:
        return max(demand.least, demand.host * host + made + demand.pinning, _TINY)
    return max(demand.least, demand.host * host, made / demand.workers, demand.pinning, _TINY)


def _busy(demand: Demand, fetch: float, host: float) -> _Busy:
    took = pace(demand, fetch, host)
    at_home = 0 if demand.workers else demand.on
    return _Busy(
        worker=min(1.0, demand.on * fetch / took / demand.workers) if demand.workers else 0.0,
        host=min(1.0, (demand.host * host + at_home) / took),
        pinning=min(1.0, demand.pinning / took),
    )


def _load(demand: Demand, busy: _Busy) -> float:
    ready = demand.workers * demand.each * busy.worker + busy.pinning + busy.host
    beside = (demand.threads - 1) * (demand.together + demand.spinning) * busy.host
    return (ready + beside) / max(demand.cores, _TINY)


def _stretched(demand: Demand, busy: _Busy, gang: float, bunched: float) -> tuple[float, float]:
    """Give by what factors fetches and the training thread are stretched, in the mean.

    Each one of them is there itself: among those that are busy, one meets the others. Company is
    known by how long it is there, so that what is done in a time is what is added up, and what each
    gets of the processors never comes to less than all of them while enough are ready.
    """
    cores, each = max(demand.cores, _TINY), demand.each
    every = _at_work(demand.workers, busy.worker, bunched)
    others = _met(every)
    alone = 1 - demand.together - demand.spinning
    shares = ((demand.together, gang), (demand.spinning, 0.0), (alone, 0.0))
    done = host = 0.0
    for number, (share, own) in enumerate(shares):
        threads = demand.threads if number < 2 else 1  # noqa: PLR2004 - the last is alone
        ready = [each * (k + 1) + threads + busy.pinning for k in range(len(others))]
        done += busy.host * share * _done(others, [max(1.0, one / cores) for one in ready])
        ready = [each * k + threads + busy.pinning for k in range(len(every))]
        host += share / _done(
            every, [_together(one, cores, own if threads > 1 else 0.0) for one in ready]
        )
    ready = [each * (k + 1) + busy.pinning for k in range(len(others))]
    done += (1 - busy.host) * _done(others, [max(1.0, one / cores) for one in ready])
    return 1 / done, host


def _together(ready: float, cores: float, gang: float) -> float:
    """Give how far threads that wait for the last of them are stretched.

    Nobody puts them on processors at the same time (Ousterhout 1982): two that have half of one
    each, both have one a quarter of the time. More than two sleep while they wait, and are taken to
    suffer no more than two.
    """
    even = max(1.0, ready / cores)
    fullest = max(1.0, float(ceil(ready / cores - _TINY)), even * even)
    return even ** (1 - gang) * fullest**gang


def _at_work(many: int, each: float, bunched: float) -> list[float]:
    """Give how likely it is that 0, 1 … workers are busy: in turn, so far as not by chance."""
    mean = many * each
    least = min(many - 1, int(mean))
    chances = [bunched * one for one in _chances(many, each)]
    chances[least] += (1 - bunched) * (1 - (mean - least))
    chances[least + 1] += (1 - bunched) * (mean - least)
    return chances


def _met(every: Sequence[float]) -> list[float]:
    """Give how likely it is that a busy one meets 0, 1 … others: more are met where more are."""
    weights = [(number + 1) * one for number, one in enumerate(every[1:])]
    whole = sum(weights)
    return [one / whole for one in weights] if whole > _TINY else [1.0] + [0.0] * (len(every) - 2)


def _chances(many: int, each: float) -> list[float]:
    """Give how likely it is that 0, 1 … of so many are ready."""
    return [comb(many, k) * each**k * (1 - each) ** (many - k) for k in range(many + 1)]


def _done(chances: Sequence[float], stretched: Sequence[float]) -> float:
    """Give what is done in a time, of what would be done alone."""
    return sum(chance / factor for chance, factor in zip(chances, stretched, strict=True))
