"""What the profiler cost: α nanoseconds a traced event, found from the run's own plain steps (V2).

A profiled host is slower than a plain one, up to 2.1 times where it is the bottleneck. Once α is
taken off each traced host event, the replay of the unchanged window must take as long as a step
that no profiler saw. One constant is enough: two, or a factor, fit no better. Where the device is
the bottleneck the step hardly depends on α, so that only bounds of it are known.

Devices are slower under the profiler too where their kernels are short: in five windows of an H200
that were bound by it plain steps were shorter than the device's own time by 0.4 to 2.7 µs an
activity. What α does not explain is taken off activities, as far as that.

Where what is usual does not explain how much longer a window's steps are, there are two reasons:
tracing cost more than usual (it is the host's own work, and dearer on a slow host), or the host was
slower by some factor while the window was open (hosts drift by a quarter within a run). Where they
are shorter, the host was faster. A run cannot tell them apart, so that each is an explanation to be
played by itself, and what is predicted holds both.

A host that is ahead of its device makes short steps until the queue is full: at the start, and
after a pause. Its own work takes no longer than these, which bounds α where the device makes the
step. What a profiler leaves behind in a process costs the host some more (steps of 56 ms before the
first window of an H200, of 71 ms behind it): the shortest steps are those without.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import numpy as np

from gapless.replay.aligning import calm
from gapless.replay.identity import Simulate, durations
from gapless.replay.mismatch import FASTER, LEAST, LEFT, MOST, SLOWER, Alpha, judged, of_two, told
from gapless.replay.nodes import Graph, Played

USUAL: Final = 1_700.0  # ns: the median of ten runs on an H200, without stacks
_SEVERAL: Final = 3  # steps: the median of so many is worth more than their mean
SLOWEST: Final = 3_000.0  # ns: the most that is taken off an activity
FASTEST: Final = 5_000.0  # ns: the most that short steps of a host that is ahead may tell
_EXACT: Final = 25.0  # ns
_VAGUE: Final = 1_000.0  # ns: bounds that are farther apart than that are bounds, and no value
DEAREST: Final = 10_000.0  # ns: what tracing an event may cost on the slowest of hosts
_ALIKE: Final = 0.01  # of the step: what a step time is known to
_CLOSE: Final = 1e-3  # times: what a pace is found to


@dataclass(frozen=True)
class Ahead:
    """Steps that no profiler saw, as the host made them, in ns: the shortest, and a tenth part.

    Of a host that is ahead of its device they are short: its own work took no longer.
    """

    shortest: float
    tenth: float


@dataclass(frozen=True)
class _Limits:
    """What α may be where the step does not tell."""

    least: float = LEAST
    usual: float = USUAL
    most: float = MOST


def eased(graph: Graph, ns: float) -> Graph:
    """Give a graph whose activities cost less by so much: the gap before each, then itself.

    Half of its length stays at least.
    """
    work, less = graph.work, round(ns)
    gap = np.minimum(work.gap, less)
    duration = work.duration - np.minimum(less - gap, work.duration // 2)
    return replace(graph, work=replace(work, gap=work.gap - gap, duration=duration))


def fit_alpha(
    graph: Graph,
    unprofiled_step_ns: float,
    simulate: Simulate,
    ahead: Ahead | None = None,
    chance: float | None = None,
) -> Alpha:
    """Fit α so that the replayed step, stalls aside, is as long as those that no profiler saw.

    ``ahead``: how short steps the host made, which counts where the device makes the step;
    ``chance``: by what share so few steps are off the usual one, for hosts drift and steps vary:
    so much is no finding; ``None``: it is not known, and any mismatch is one.
    """
    usual = calm(graph)
    found = _fitted(usual, unprofiled_step_ns, simulate, _Limits(), chance)
    if ahead is None or not graph.on_device or not _hidden(found):
        return found
    limits = _limits(usual, ahead, simulate)
    if limits == _Limits():
        return found
    again = _fitted(usual, unprofiled_step_ns, simulate, limits, chance)
    return found if again.refused is not None else again


def _hidden(found: Alpha) -> bool:
    """Tell whether the step hardly depends on what tracing cost its host."""
    return found.bound and found.refused is None and found.other is None and found.pace == 1


@dataclass(frozen=True)
class _Step:
    """The usual step of a window as it is replayed, by what tracing cost and the host's pace."""

    graph: Graph
    simulate: Simulate
    known: dict[tuple[float, float, float], float] = field(
        default_factory=dict[tuple[float, float, float], float]
    )

    def __call__(self, alpha: float, pace: float = 1.0, device: float = 0.0) -> float:
        """Give how long it is, in ns."""
        key = (alpha, pace, device)
        if key not in self.known:
            graph = replace(eased(self.graph, device) if device else self.graph, pace=pace)
            self.known[key] = _typical(graph, self.simulate(graph, alpha))
        return self.known[key]


def _fitted(
    usual: Graph, target: float, simulate: Simulate, limits: _Limits, drift: float | None
) -> Alpha:
    step = _Step(usual, simulate)
    plain, slack, most = step(0.0), _ALIKE * target, limits.most
    chance = min(LEFT, drift or 0.0)
    if step(most) > target + slack:  # tracing the host does not explain it all
        return _longer(step, target, limits, chance)
    low = max(_crossing(step, target + slack, plain, most), limits.least)
    high = _crossing(step, target - slack, plain, most)
    floor = step(DEAREST)  # it is as long whatever α is, or nearly
    if high - low >= _VAGUE or floor >= target - slack or limits != _Limits():
        mid, high = max(limits.usual, low), max(high, low)
        fitted = Alpha(low, min(mid, high), high, bound=True, error=0.0)
    else:
        mid = _crossing(step, target, plain, most)
        fitted = Alpha(min(low, mid), mid, max(high, mid), bound=False, error=0.0)
    fitted = replace(fitted, error=step(fitted.mid) / target - 1)
    if fitted.mid < limits.least and step(limits.least) < target - slack:
        return _shorter(step, fitted, target, limits, chance)
    return judged(fitted, chance)


def _shorter(step: _Step, fitted: Alpha, target: float, limits: _Limits, chance: float) -> Alpha:
    """Explain a window whose steps are shorter than plain ones, once tracing is taken off.

    The host was faster then. On a device all may have been, which leaves ratios as they are; so may
    tracing have cost less than is usual.
    """
    pace = _pace(step, limits.usual, target)
    if step(limits.usual, pace) < target * (1 - _ALIKE):  # no host is so much faster
        return judged(fitted, chance)
    faster = _at_pace(limits, pace, fitted.error)
    alike = step.graph.on_device or fitted.error > -_ALIKE
    return of_two(fitted, faster, chance) if alike else told(faster, chance)


def _longer(step: _Step, target: float, limits: _Limits, chance: float) -> Alpha:
    """Explain a window whose steps are longer than plain ones by more than tracing usually costs.

    Tracing cost more than usual, or the host was slower. Where no host is slow enough it is what
    tracing cost devices, first of all.
    """
    plain, most, slack = step(0.0), limits.most, _ALIKE * target
    low = max(_crossing(step, step(most) + slack, plain, most), limits.least)
    mid, device = max(limits.usual, low), 0.0
    if step.graph.on_device and step(mid, SLOWER) > target + slack:
        device = _crossing(lambda ns: step(mid, 1.0, ns), target, step(mid), SLOWEST)
    usual, slowest = step(mid, 1.0, device), step(mid, SLOWER, device)
    if usual <= target + slack or slowest > target + slack:
        error = usual / target - 1
        return judged(Alpha(low, mid, most, bound=True, error=error, device=device), chance)
    error = step(most, 1.0, device) / target - 1
    slower = _at_pace(limits, _pace(step, limits.usual, target, device), error, device)
    traced = _crossing(lambda ns: step(ns, 1.0, device), target, plain, DEAREST)
    if step(traced, 1.0, device) > target + slack:
        return told(slower, chance)
    dearer = Alpha(min(most, traced), traced, traced, bound=True, error=error, device=device)
    return of_two(dearer, slower, chance)


def _pace(step: _Step, alpha: float, target: float, device: float = 0.0) -> float:
    """Give how many times slower the host must have been, as far as a host may be."""
    lo, hi = FASTER, SLOWER
    while hi / lo - 1 > _CLOSE:
        middle = (lo * hi) ** 0.5
        lo, hi = (middle, hi) if step(alpha, middle, device) > target else (lo, middle)
    return hi


def _at_pace(limits: _Limits, pace: float, error: float, device: float = 0.0) -> Alpha:
    least, usual, most = limits.least, limits.usual, limits.most
    return Alpha(least, usual, most, bound=True, error=error, device=device, pace=pace)


def _limits(usual: Graph, ahead: Ahead, simulate: Simulate) -> _Limits:
    """Give what α must be for the host alone to be as fast as it was seen to be.

    The shortest step bounds its own work from above: α is at least what that asks for, unless that
    step is unlike others; then what a tenth of them ask for. Even that step may have been held up:
    α may be as far above as the tenth is below.
    """
    work, start = usual.work, usual.start
    nothing = np.zeros_like(work.duration)
    alone = replace(
        usual,
        work=replace(work, duration=nothing, gap=nothing),
        begun=np.minimum(usual.begun, start),
        heads=tuple(np.minimum(one, start) for one in usual.heads),
    )

    @cache
    def step(alpha: float) -> float:
        return _typical(alone, simulate(alone, alpha))

    least = _crossing(step, ahead.tenth, step(0.0), FASTEST)
    likely = max(least, _crossing(step, ahead.shortest, step(0.0), FASTEST))
    most = min(FASTEST, 2 * likely - least)
    return _Limits(max(LEAST, least), max(USUAL, likely), max(MOST, most))


def _typical(graph: Graph, played: Played) -> float:
    """Give the median counted step of several, else the mean."""
    lengths = durations(graph, played.steps)
    return float(np.median(lengths) if len(lengths) >= _SEVERAL else lengths.mean())


def _crossing(
    step: Callable[[float], float], target: float, plain: float, most: float = MOST
) -> float:
    """Give the least value from which on a step takes no longer than so; else the greatest."""
    if plain <= target:
        return 0.0
    lo, hi = 0.0, most
    if step(hi) > target:
        return most
    while hi - lo > _EXACT:
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if step(middle) > target else (lo, middle)
    return hi
