"""What the profiler cost: α nanoseconds a traced event, found from the run's own plain steps.

A profiled host is slower than a plain one, up to 2.1 times where it is the bottleneck. Once α is
taken off each traced host event, the replay of the unchanged window must take as long as a step
that no profiler saw. One constant is enough: two, or a factor, fit no better. Where the device is
the bottleneck the step hardly depends on α, so that only bounds of it are known.

Devices are slower under the profiler too where their kernels are short: in five windows of an H200
that were bound by it plain steps were shorter than the device's own time by 0.4 to 2.7 µs an
activity. What α does not explain is taken off activities, as far as that.

Where what is usual does not explain how much longer a window's steps are, there are two reasons:
tracing cost more than usual (it is the host's own work, and more expensive on a slow host), or the
host was slower by some factor while the window was open (hosts drift by a quarter within a run).
Where they are shorter, the host was faster. A run cannot distinguish them, so that each is an
explanation that is simulated by itself, and the prediction covers both.

A host that is ahead of its device makes short steps until the queue is full: at the start, and
after a pause. Its own work takes no longer than these, which bounds α where the device makes the
step. What a profiler leaves behind in a process costs the host some more (steps of 56 ms before the
first window of an H200, of 71 ms after it): the shortest steps are those without.
"""

from collections.abc import Callable
from functools import cache
from math import sqrt
from typing import Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from gapless.replay.graph.aligning import remove_stalls
from gapless.replay.graph.nodes import Graph, SimulatedSteps
from gapless.replay.predict.identity import Simulate, step_lengths
from gapless.replay.predict.mismatch import (
    FASTEST_PACE,
    MAX_ALPHA,
    MAX_LEFT_SHARE,
    MIN_ALPHA,
    SLOWEST_PACE,
    Alpha,
    annotate_fit,
    judge_fit,
    merge_explanations,
)

USUAL_ALPHA_NS: Final = 1_700.0  # ns: the median of ten runs on an H200, without stacks
_MIN_MEDIAN_STEPS: Final = 3  # steps: the median of so many is worth more than their mean
MAX_DEVICE_NS: Final = 3_000.0  # ns: the most that is taken off an activity
# ns: the largest α that short steps of a host that is ahead may imply
MAX_AHEAD_ALPHA: Final = 5_000.0
_ALPHA_TOLERANCE: Final = 25.0  # ns
# ns: bounds that are farther apart than that are bounds, and no value
_MAX_VALUE_WIDTH: Final = 1_000.0
MAX_TRACE_NS: Final = 10_000.0  # ns: what tracing an event may cost on the slowest of hosts
_STEP_TOLERANCE: Final = 0.01  # of the step: what a step time is known to
_IDLE_TOLERANCE: Final = 0.03  # of the step: what a device idles at most where it makes the step
_PACE_TOLERANCE: Final = 1e-3  # times: what a pace is found to


class PlainSteps(Struct, frozen=True):
    """Steps that no profiler saw, as the host made them, in ns: the shortest, and a tenth part.

    Of a host that is ahead of its device they are short: its own work took no longer.
    """

    shortest: float
    tenth: float


class _AlphaLimits(Struct, frozen=True):
    """The limits of α where the step does not determine it."""

    lowest: float = MIN_ALPHA
    usual: float = USUAL_ALPHA_NS
    highest: float = MAX_ALPHA


def ease_devices(graph: Graph, ns: float) -> Graph:
    """Return a graph whose activities cost less: first the gap before each, then itself.

    Half of its length stays at least.
    """
    work, relief_ns = graph.work, round(ns)
    gap = np.minimum(work.gap, relief_ns)
    duration = work.duration - np.minimum(relief_ns - gap, work.duration // 2)
    return replace(graph, work=replace(work, gap=work.gap - gap, duration=duration))


def fit_alpha(
    graph: Graph,
    unprofiled_step_ns: float,
    simulate: Simulate,
    plain_steps: PlainSteps | None = None,
    chance: float | None = None,
) -> Alpha:
    """Fit α so that the replayed step, stalls aside, is as long as those that no profiler saw.

    ``plain_steps``: how short steps the host made, which counts where the device makes the step;
    ``chance``: by what share so few steps are off the usual one, since hosts drift and steps vary:
    a mismatch up to that is no finding; ``None``: it is not known, and any mismatch is one.
    """
    calm_graph = remove_stalls(graph)
    alpha = _fit_limits(calm_graph, unprofiled_step_ns, simulate, _AlphaLimits(), chance)
    if plain_steps is None or not graph.on_device or not _is_hidden(alpha):
        return alpha
    limits = _find_limits(calm_graph, plain_steps, simulate)
    if limits == _AlphaLimits():
        return alpha
    refit = _fit_limits(calm_graph, unprofiled_step_ns, simulate, limits, chance)
    return alpha if refit.refused is not None else refit


def _is_hidden(alpha: Alpha) -> bool:
    """Return whether the step hardly depends on what tracing cost its host."""
    return (
        alpha.only_bounds
        and alpha.refused is None
        and alpha.alternative is None
        and alpha.pace == 1
    )


class _ReplayedStep(Struct, frozen=True):
    """The usual step of a window as it is replayed, by what tracing cost and the host's pace."""

    graph: Graph
    simulate: Simulate
    lengths: dict[tuple[float, float, float], float] = field(
        default_factory=dict[tuple[float, float, float], float]
    )

    def __call__(self, alpha: float, pace: float = 1.0, device: float = 0.0) -> float:
        """Return the length of the step, in ns."""
        key = (alpha, pace, device)
        if key not in self.lengths:
            graph = replace(ease_devices(self.graph, device) if device else self.graph, pace=pace)
            self.lengths[key] = _typical_step(graph, self.simulate(graph, alpha))
        return self.lengths[key]


def _fit_limits(
    calm_graph: Graph, target: float, simulate: Simulate, limits: _AlphaLimits, drift: float | None
) -> Alpha:
    step = _ReplayedStep(calm_graph, simulate)
    plain_ns, slack, highest = step(0.0), _STEP_TOLERANCE * target, limits.highest
    chance = min(MAX_LEFT_SHARE, drift or 0.0)
    if step(highest) > target + slack:  # tracing the host does not explain it all
        return _explain_longer(step, target, limits, chance)
    low = max(_find_crossing(step, target + slack, plain_ns, highest), limits.lowest)
    high = _find_crossing(step, target - slack, plain_ns, highest)
    floor = step(MAX_TRACE_NS)  # it is as long whatever α is, or nearly
    is_devices = floor >= target * (1 - _IDLE_TOLERANCE)
    if high - low >= _MAX_VALUE_WIDTH or is_devices or limits != _AlphaLimits():
        mid, high = max(limits.usual, low), max(high, low)
        alpha = Alpha(low, min(mid, high), high, only_bounds=True, error=0.0)
    else:
        mid = _find_crossing(step, target, plain_ns, highest)
        alpha = Alpha(min(low, mid), mid, max(high, mid), only_bounds=False, error=0.0)
    alpha = replace(alpha, error=step(alpha.mid) / target - 1)
    if alpha.mid < limits.lowest and step(limits.lowest) < target - slack:
        return _explain_shorter(step, alpha, target, limits, chance)
    return judge_fit(alpha, chance)


def _explain_shorter(
    step: _ReplayedStep, alpha: Alpha, target: float, limits: _AlphaLimits, chance: float
) -> Alpha:
    """Explain a window whose steps are shorter than plain ones, once tracing is taken off.

    The host was faster then. With a device everything may have been, which leaves ratios as they
    are; or tracing cost less than usual.
    """
    pace = _find_pace(step, limits.usual, target)
    if step(limits.usual, pace) < target * (1 - _STEP_TOLERANCE):  # no host is so much faster
        return judge_fit(alpha, chance)
    faster = _alpha_at_pace(limits, pace, alpha.error)
    has_two = step.graph.on_device or alpha.error > -_STEP_TOLERANCE
    return merge_explanations(alpha, faster, chance) if has_two else annotate_fit(faster, chance)


def _explain_longer(
    step: _ReplayedStep, target: float, limits: _AlphaLimits, chance: float
) -> Alpha:
    """Explain a window whose steps are longer than plain ones by more than tracing usually costs.

    Tracing cost more than usual, or the host was slower. Where no host is slow enough it is what
    tracing cost devices, first of all.
    """
    plain_ns, highest, slack = step(0.0), limits.highest, _STEP_TOLERANCE * target
    low = max(_find_crossing(step, step(highest) + slack, plain_ns, highest), limits.lowest)
    mid, device = max(limits.usual, low), 0.0
    if step.graph.on_device and step(mid, SLOWEST_PACE) > target + slack:
        device = _find_crossing(lambda ns: step(mid, 1.0, ns), target, step(mid), MAX_DEVICE_NS)
    usual_ns, slowest_ns = step(mid, 1.0, device), step(mid, SLOWEST_PACE, device)
    if usual_ns <= target + slack or slowest_ns > target + slack:
        error = usual_ns / target - 1
        return judge_fit(
            Alpha(low, mid, highest, only_bounds=True, error=error, device=device), chance
        )
    error = step(highest, 1.0, device) / target - 1
    slower = _alpha_at_pace(limits, _find_pace(step, limits.usual, target, device), error, device)
    trace_ns = _find_crossing(lambda ns: step(ns, 1.0, device), target, plain_ns, MAX_TRACE_NS)
    if step(trace_ns, 1.0, device) > target + slack:
        return annotate_fit(slower, chance)
    dearer = Alpha(
        min(highest, trace_ns), trace_ns, trace_ns, only_bounds=True, error=error, device=device
    )
    return merge_explanations(dearer, slower, chance)


def _find_pace(step: _ReplayedStep, alpha: float, target: float, device: float = 0.0) -> float:
    """Return how many times slower the host must have been, as far as a host may be."""
    lo, hi = FASTEST_PACE, SLOWEST_PACE
    while hi / lo - 1 > _PACE_TOLERANCE:
        middle = (lo * hi) ** 0.5
        lo, hi = (middle, hi) if step(alpha, middle, device) > target else (lo, middle)
    return hi


def _alpha_at_pace(limits: _AlphaLimits, pace: float, error: float, device: float = 0.0) -> Alpha:
    lowest, usual, highest = limits.lowest, limits.usual, limits.highest
    return Alpha(lowest, usual, highest, only_bounds=True, error=error, device=device, pace=pace)


def _find_limits(calm_graph: Graph, plain_steps: PlainSteps, simulate: Simulate) -> _AlphaLimits:
    """Return what α must be for the host alone to be as fast as it was seen to be.

    The shortest step bounds its own work from above: α is at least what that implies, unless that
    step is unlike others; then what a tenth of them imply. Even that step may have been held up: α
    may be as far above as the tenth is below.
    """
    work, start = calm_graph.work, calm_graph.start
    zeros = np.zeros_like(work.duration)
    host_only = replace(
        calm_graph,
        work=replace(work, duration=zeros, gap=zeros),
        backlog_ends=np.minimum(calm_graph.backlog_ends, start),
        heads=tuple(np.minimum(head, start) for head in calm_graph.heads),
    )

    @cache
    def step(alpha: float) -> float:
        return _typical_step(host_only, simulate(host_only, alpha))

    lowest = _find_crossing(step, plain_steps.tenth, step(0.0), MAX_AHEAD_ALPHA)
    usual_ns = sqrt(plain_steps.shortest * plain_steps.tenth)
    likely = max(lowest, _find_crossing(step, usual_ns, step(0.0), MAX_AHEAD_ALPHA))
    highest = min(MAX_AHEAD_ALPHA, 2 * likely - lowest)
    return _AlphaLimits(
        max(MIN_ALPHA, lowest), max(USUAL_ALPHA_NS, likely), max(MAX_ALPHA, highest)
    )


def _typical_step(graph: Graph, simulated: SimulatedSteps) -> float:
    """Return the median counted step of several, else the mean."""
    lengths = step_lengths(graph, simulated.steps)
    return float(np.median(lengths) if len(lengths) >= _MIN_MEDIAN_STEPS else lengths.mean())


def _find_crossing(
    step: Callable[[float], float], target: float, plain_ns: float, highest: float = MAX_ALPHA
) -> float:
    """Return the least value from which on a step takes no longer than so; else the greatest."""
    if plain_ns <= target:
        return 0.0
    lo, hi = 0.0, highest
    if step(hi) > target:
        return highest
    while hi - lo > _ALPHA_TOLERANCE:
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if step(middle) > target else (lo, middle)
    return hi
