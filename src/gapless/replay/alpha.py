"""What the profiler cost: α nanoseconds a traced event, found from the run's own plain steps (V2).

A profiled host is slower than a plain one, up to 2.1 times where it is the bottleneck. Once α is
taken off each traced host event, the replay of the unchanged window must take as long as a step
that no profiler saw. One constant is enough: two, or a factor, fit no better. Where the device is
the bottleneck the step hardly depends on α, so that only bounds of it are known.

Devices are slower under the profiler too where their kernels are short: in five windows of an H200
that were bound by it plain steps were shorter than the device's own time by 0.4 to 2.7 µs an
activity. What α does not explain is taken off activities, as far as that.

A host that is ahead of its device makes short steps until the queue is full: at the start, and
after a pause. Its own work takes no longer than these, which bounds α where the device makes the
step. What a profiler leaves behind in a process costs the host some more (steps of 56 ms before the
first window of an H200, of 71 ms behind it): the shortest steps are those without.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from gapless.replay.aligning import calm
from gapless.replay.identity import Simulate, durations
from gapless.replay.nodes import Graph, Played

USUAL: Final = 1_700.0  # ns: the median of ten runs on an H200, without stacks
LEAST, MOST = 500.0, 2_500.0  # ns: what is usual at all
_SEVERAL: Final = 3  # steps: the median of so many is worth more than their mean
SLOWEST: Final = 3_000.0  # ns: the most that is taken off an activity
FASTEST: Final = 5_000.0  # ns: the most that short steps of a host that is ahead may tell
_EXACT: Final = 25.0  # ns
_VAGUE: Final = 1_000.0  # ns: bounds that are farther apart than that are bounds, and no value
_ALIKE: Final = 0.01  # of the step: what a step time is known to
OFF, FAR_OFF = 0.05, 0.1  # of the step: beyond these the window says little, or nothing
ALONE: Final = 0.25  # likewise nothing, where host or device alone makes the step: all is longer
_INFLATED: Final = 2.5  # times: a window that is slower than that says nothing


@dataclass(frozen=True)
class Alpha:
    """What tracing cost a host event, in ns: likely, and within which bounds.

    ``bound``: only bounds are known, for the step hardly depends on it. ``error``: by what share
    of it the replayed step misses the plain one; ``device``: what tracing cost an activity (it is
    taken off by ``eased``). ``refused``: why no gain can be predicted.
    ``wide``: intervals have to be wider (``uncertainty.wider``).
    """

    low: float
    mid: float
    high: float
    bound: bool
    error: float
    wide: bool = False
    refused: str | None = None
    notes: tuple[str, ...] = ()
    device: float = 0.0


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
    chance: float = 0.0,
) -> Alpha:
    """Fit α so that the replayed step, stalls aside, is as long as those that no profiler saw.

    ``ahead``: how short steps the host made, which counts where the device makes the step;
    ``chance``: by what share so few steps are off the usual one because steps vary: so much is
    no reason to refuse.
    """
    usual = calm(graph)
    found = _fitted(usual, unprofiled_step_ns, simulate, _Limits(), chance)
    if ahead is None or not found.bound or not graph.on_device or found.refused is not None:
        return found
    limits = _limits(usual, ahead, simulate)
    if limits == _Limits():
        return found
    again = _fitted(usual, unprofiled_step_ns, simulate, limits, chance)
    return found if again.refused is not None else again


def _fitted(
    usual: Graph, target: float, simulate: Simulate, limits: _Limits, chance: float
) -> Alpha:
    @cache
    def step(alpha: float) -> float:
        return _typical(usual, simulate(usual, alpha))

    plain = step(0.0)
    slack, most = _ALIKE * target, limits.most
    if step(most) > target + slack:  # tracing the host does not explain it all
        return _with_device(usual, target, simulate, limits, chance)
    low = max(_crossing(step, target + slack, plain, most), limits.least)
    high = _crossing(step, target - slack, plain, most)
    if high - low >= _VAGUE or limits != _Limits():  # it is as long whatever α is, or nearly
        mid, high = max(limits.usual, low), max(high, low)
        fitted = Alpha(low, min(mid, high), high, bound=True, error=0.0)
    else:
        mid = _crossing(step, target, plain, most)
        fitted = Alpha(min(low, mid), mid, max(high, mid), bound=False, error=0.0)
    fitted = replace(fitted, error=step(fitted.mid) / target - 1)
    allowed = max(chance, FAR_OFF if usual.on_device else ALONE)
    return judged(fitted, plain / target, allowed)


def _with_device(
    usual: Graph, target: float, simulate: Simulate, limits: _Limits, chance: float
) -> Alpha:
    """Let what α does not explain be what tracing cost devices."""

    def step(alpha: float, device: float = 0.0) -> float:
        graph = eased(usual, device)
        return _typical(graph, simulate(graph, alpha))

    plain, most = step(0.0), limits.most
    floor, slack = step(most), _ALIKE * target
    if step(limits.usual) - floor > slack:  # it is the host that is slower than was ever seen
        fitted = Alpha(limits.usual, most, most, bound=True, error=floor / target - 1)
        return judged(fitted, plain / target, max(chance, OFF if usual.on_device else ALONE))
    low = max(_crossing(step, floor + slack, plain, most), limits.least)
    mid, device = max(limits.usual, low), 0.0
    if usual.on_device:
        device = _crossing(lambda ns: step(mid, ns), target, step(mid), SLOWEST)
    error = step(mid, device) / target - 1
    fitted = Alpha(low, mid, most, bound=True, error=error, device=device)
    return judged(fitted, plain / target, max(chance, ALONE))


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


def judged(fitted: Alpha, inflation: float, allowed: float) -> Alpha:
    """Say how far a fit can be trusted."""
    notes, refused = list[str](), None
    off = f"the window's step is {fitted.error:+.0%} off those that no profiler saw"
    if inflation > _INFLATED:
        refused = f"the profiler made the step {inflation:.1f} times as long"
    elif abs(fitted.error) > allowed:
        refused = off
    elif abs(fitted.error) > OFF:
        notes.append(off)
    if not fitted.bound and fitted.mid < LEAST:
        usual = f"{LEAST / 1000:.1f} to {MOST / 1000:.1f} µs is usual"
        notes.append(f"tracing cost {fitted.mid / 1000:.1f} µs an event; {usual}")
    if fitted.device:
        notes.append(f"tracing cost devices {fitted.device / 1000:.1f} µs an activity")
    wide = abs(fitted.error) > OFF
    return replace(fitted, wide=wide, refused=refused, notes=tuple(notes))
