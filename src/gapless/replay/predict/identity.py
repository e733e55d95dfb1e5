"""Whether a replay can be trusted: simulated without changes, it must reproduce the trace.

Lags and gaps are imputed. With observed ones the test would pass whatever edge is missing.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from gapless.model.trace import Int64
from gapless.replay.graph.nodes import Graph, Op, SimulatedSteps
from gapless.replay.graph.simulate import StuckError

EXACT_ERROR: Final = 0.005  # of the step: an identity error up to this is negligible
MAX_ERROR: Final = 0.02  # of the step: the largest identity error; it makes intervals wider
EXACT_UNEXPLAINED: Final = 0.05  # of the step: waits that no edge explains are negligible
MAX_UNEXPLAINED: Final = 0.15  # of the step: the longest such waits; they make intervals wider

Simulate = Callable[[Graph, float], SimulatedSteps]


class IdentityCheck(Struct, frozen=True):
    """How well an unchanged replay reproduces the trace; errors are shares of the step."""

    error: float | None  # of the mean counted step, with its sign; None: it could not be simulated
    steps: tuple[float, ...]  # of each counted step
    unexplained: float
    passes: bool
    refusal: str | None


def check_identity(graph: Graph, simulate: Simulate) -> IdentityCheck:
    """Simulate a graph unchanged and compare its steps with those of the trace."""

    def conclude(
        error: float | None, steps: tuple[float, ...], reason: str | None
    ) -> IdentityCheck:
        return IdentityCheck(error, steps, graph.unexplained, reason is None, reason)

    fault = find_fault(graph)
    if fault is not None:
        return conclude(None, (), fault)
    try:
        simulated = simulate(graph, 0.0)
    except StuckError as error:
        return conclude(None, (), str(error))
    recorded_ns, replayed_ns = (
        step_lengths(graph, graph.steps),
        step_lengths(graph, simulated.steps),
    )
    error = float(replayed_ns.sum() / recorded_ns.sum()) - 1
    steps = tuple((replayed_ns / recorded_ns - 1).tolist())
    if abs(error) > MAX_ERROR:
        reason = f"replayed unchanged, the step is {error:+.1%} off; {MAX_ERROR:.1%} is allowed"
        return conclude(error, steps, reason)
    if graph.unexplained > MAX_UNEXPLAINED:
        share = f"{graph.unexplained:.0%}"
        return conclude(error, steps, f"nothing recorded explains waits of {share} of the step")
    return conclude(error, steps, None)


def find_fault(graph: Graph) -> str | None:
    """Return what is wrong with a graph, which no trace may cause; ``None``: nothing is."""
    if not graph.counted_steps:
        return "no step of the window is regular"
    if (step_lengths(graph, graph.steps) <= 0).any():
        return "a step of the window has no length"
    costs = [(thread.amounts, thread.stall) for thread in graph.threads]
    if any((amounts < 0).any() or (stall < 0).any() for amounts, stall in costs):
        return "a stretch of host time has a negative length"
    if (graph.work.duration <= 0).any():
        return "an activity has no length"
    if any(before >= row for row, after in enumerate(graph.work.after) for before in after):
        return "an activity waits for one that is launched after it"
    launched_jobs = [thread.args[np.isin(thread.ops, _LAUNCHES)] for thread in graph.threads]
    n_launches = np.bincount(np.concatenate(launched_jobs), minlength=len(graph.work.duration))
    return None if (n_launches == 1).all() else "an activity is not launched, or twice"


_LAUNCHES: Final = (Op.LAUNCH, Op.COPY)


def step_lengths(graph: Graph, ends: Int64) -> Int64:
    """Return the lengths of the counted steps, of steps that end so."""
    return np.diff(np.append(graph.opening_ns, ends))[list(graph.counted_steps)]
