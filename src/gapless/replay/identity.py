"""Whether a replay can be believed: played unchanged, it must give the trace back (V0, V1).

Lags and gaps are imputed. With those observed the test would pass whatever edge is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gapless.model.trace import Int64
from gapless.replay.nodes import Graph, Op, Played
from gapless.replay.simulate import StuckError

EXACT: Final = 0.005  # of the step: an identity that misses it by no more is as good as none
ALLOWED: Final = 0.02  # of the step: what an identity may miss it by; it makes intervals wider
UNEXPLAINED: Final = 0.05  # of the step: waits that no edge explains

Simulate = Callable[[Graph, float], Played]


@dataclass(frozen=True)
class Identity:
    """How well an unchanged replay gives the trace back; errors are shares of the step."""

    error: float | None  # of the mean counted step, with its sign; None: it could not be played
    steps: tuple[float, ...]  # of each counted step
    unexplained: float
    allowed: float
    passes: bool
    why_not: str | None


def identity(graph: Graph, simulate: Simulate) -> Identity:
    """Play a graph unchanged and compare its steps with those of the trace."""

    def judged(error: float | None, steps: tuple[float, ...], reason: str | None) -> Identity:
        return Identity(error, steps, graph.unexplained, ALLOWED, reason is None, reason)

    broken = unsound(graph)
    if broken is not None:
        return judged(None, (), broken)
    try:
        played = simulate(graph, 0.0)
    except StuckError as error:
        return judged(None, (), str(error))
    truth, found = durations(graph, graph.steps), durations(graph, played.steps)
    error = float(found.sum() / truth.sum()) - 1
    steps = tuple((found / truth - 1).tolist())
    if abs(error) > ALLOWED:
        reason = f"replayed unchanged, the step is {error:+.1%} off; {ALLOWED:.1%} is allowed"
        return judged(error, steps, reason)
    if graph.unexplained > UNEXPLAINED:
        share = f"{graph.unexplained:.0%}"
        return judged(error, steps, f"nothing recorded explains waits of {share} of the step")
    return judged(error, steps, None)


def unsound(graph: Graph) -> str | None:
    """Say what is wrong with a graph that no trace may give; ``None``: nothing is (V0)."""
    if not graph.counted:
        return "no step of the window is regular"
    if (durations(graph, graph.steps) <= 0).any():
        return "a step of the window has no length"
    costs = [(thread.amounts, thread.stall) for thread in graph.threads]
    if any((amounts < 0).any() or (stall < 0).any() for amounts, stall in costs):
        return "a stretch of host time has a negative length"
    if (graph.work.duration <= 0).any():
        return "an activity has no length"
    if any(before >= row for row, after in enumerate(graph.work.after) for before in after):
        return "an activity waits for one that is launched after it"
    launched = [thread.args[np.isin(thread.ops, _LAUNCHES)] for thread in graph.threads]
    each = np.bincount(np.concatenate(launched), minlength=len(graph.work.duration))
    return None if (each == 1).all() else "an activity is not launched, or twice"


_LAUNCHES: Final = (Op.LAUNCH, Op.COPY)


def durations(graph: Graph, ends: Int64) -> Int64:
    """Give the lengths of the counted steps, of steps that end so."""
    begun = int(graph.begun.max(initial=graph.start)) if graph.on_device else graph.start
    return np.diff(np.append(begun, ends))[list(graph.counted)]


def step_ns(graph: Graph, played: Played) -> float:
    """Give the mean counted step of a replay, in ns."""
    return float(durations(graph, played.steps).mean())
