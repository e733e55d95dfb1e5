"""How truly a step that several ranks make together is made again, unchanged (V1, V2).

It is made as predictions make it (``slowest``): the longest of one step of each rank, drawn
independently of one another. What ranks wait for one another in turn within a step, no rank's own
work shows: of that each step gets the median of all, as replays of one rank impute lags. With the
steps that were made together, and each with its own waits, the trace would be given back by
construction. What is off by more than the few steps of windows are by chance tells that ranks are
not independent. The profiler's cost is taken off as predictions take it off (``tracing``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np

from gapless.catalogue.ranked import RANK_WAITS, Rank, find_ranks
from gapless.model.finding import ReplayFidelity
from gapless.model.interval import SIGMA, Estimate
from gapless.model.seen import Evidence
from gapless.model.study import Study
from gapless.replay.identity import MAX_ERROR, MAX_UNEXPLAINED
from gapless.replay.mismatch import Alpha, judge_fit
from gapless.replay.uncertainty import widen_by_mismatch
from gapless.study.anchoring import drift_of, unprofiled_ns
from gapless.study.slowest import mean_longest
from gapless.study.tracing import remove_tracing, count_traced, tracing_cost_ns

_ONE_RANK: Final = "windows tell of one rank alone: how the others make it wait was not seen"
_NO_JOINT_STEP: Final = "windows show no step of all its ranks"
_ESTIMATED: Final = tuple(leaf for leaf in RANK_WAITS if leaf.endswith("estimated"))


@dataclass(frozen=True)
class FidelityCheck:
    """What predictions rest on; ``off``: by what share it misses steps, if that is much."""

    fidelity: ReplayFidelity
    error: float = 0.0

    def extend_bounds(self, estimate: Estimate) -> Estimate:
        """Return an interval, as wide as unchanged steps ask for."""
        return widen_by_mismatch(estimate, self.error)


def rehearse(evidence: Evidence) -> FidelityCheck:
    """Make the unchanged step of several ranks again, and say how far off it is."""
    ranks = find_ranks(evidence)
    fidelity = ReplayFidelity(_count_windows(evidence.study), None, None, None, None)
    if not ranks:
        return FidelityCheck(replace(fidelity, windows=0, refused=_ONE_RANK))
    if len({len(rank.rows) for rank in ranks}) > 1:
        return FidelityCheck(replace(fidelity, refused=_NO_JOINT_STEP))
    length_ns, turns_ns = _measure_steps(ranks)
    fidelity = replace(
        fidelity,
        imputed=_joint_step_ns(ranks, turns_ns) / length_ns - 1,
        unexplained=sum(rank.mean(*_ESTIMATED) for rank in ranks) / len(ranks) / length_ns,
    )
    refusal = _find_refusal(fidelity, max(MAX_ERROR, _by_chance(ranks, length_ns)))
    if refusal is not None:
        return FidelityCheck(replace(fidelity, refused=refusal))
    return _compare_plain(evidence, fidelity, turns_ns)


def _compare_plain(evidence: Evidence, fidelity: ReplayFidelity, turns_ns: float) -> FidelityCheck:
    """Compare with the steps that no profiler saw."""
    plain_ns = unprofiled_ns(evidence.study)
    if plain_ns is None:
        return FidelityCheck(fidelity)
    cost = tracing_cost_ns(evidence)
    events = count_traced(evidence) or 1.0
    error = _joint_step_ns(find_ranks(remove_tracing(evidence, cost[1])), turns_ns) / plain_ns - 1
    low, mid, high = (ns / events for ns in cost)
    alpha = Alpha(low, mid, high, only_bounds=True, error=error)
    alpha = judge_fit(alpha, drift_of(evidence.study) or 0.0, hosts=not evidence.on_device)
    compared_fidelity = replace(
        fidelity, unprofiled=error, alpha_ns=mid or None, refused=alpha.refused, notes=alpha.notes
    )
    return FidelityCheck(compared_fidelity, error=error if alpha.wide else 0.0)


def _joint_step_ns(ranks: Sequence[Rank], turns_ns: float) -> float:
    """Return how long the joint step is, in ns, made of each rank's own work."""
    return mean_longest([rank.own_lengths for rank in ranks]) + turns_ns


def _measure_steps(ranks: Sequence[Rank]) -> tuple[float, float]:
    """Return how long a step of the ranks is, and what of it they wait for one another in turn."""
    lengths = np.mean([rank.lengths for rank in ranks], axis=0)
    own_ns = np.max([rank.own_lengths for rank in ranks], axis=0)
    return float(lengths.mean()), float(np.median(lengths - own_ns))


def _by_chance(ranks: Sequence[Rank], length_ns: float) -> float:
    """Return by what share of a step the mean of so few steps is off, were they independent: 90 %."""
    own_ns = [rank.own_lengths for rank in ranks]
    square = mean_longest([steps_ns * np.abs(steps_ns) for steps_ns in own_ns])
    return SIGMA * sqrt(max(0.0, square - mean_longest(own_ns) ** 2) / len(own_ns[0])) / length_ns


def _find_refusal(fidelity: ReplayFidelity, allowed: float) -> str | None:
    """Say why the unchanged step tells that nothing can be predicted."""
    if fidelity.imputed is not None and abs(fidelity.imputed) > allowed:
        return (
            f"made again of each rank's own work, the step is {fidelity.imputed:+.1%} off; "
            f"{allowed:.1%} is allowed"
        )
    if (fidelity.unexplained or 0.0) > MAX_UNEXPLAINED:
        return f"for which rank others wait is not known of {fidelity.unexplained:.0%} of the step"
    return None


def _count_windows(study: Study) -> int:
    """Count the windows of all ranks."""
    return len(study.run.paths) if study.recorded is None else study.recorded.windows
