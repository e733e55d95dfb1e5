"""How faithfully the joint step of several ranks is reproduced when nothing is changed.

It is computed as in predictions (``step_of_ranks``): the longest of one step of each rank, drawn
independently of one another. The waits of ranks for one another in turn within a step show in no
rank's own work: each step gets the median of all, as replays of one rank impute lags. From the
steps that belong together, each with its own waits, the trace would be reproduced by construction.
An error beyond what few steps of windows have by chance means that ranks are not independent. The
profiler's cost is removed as in predictions (``tracing_cost``).
"""

from collections.abc import Sequence
from math import sqrt
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.queries.ranks.rank_steps import RANK_WAITS, Rank
from gapless.catalogue.queries.ranks.rank_waits import find_ranks
from gapless.model.estimate import SIGMA, Estimate
from gapless.model.evidence import Evidence
from gapless.model.finding import ReplayFidelity
from gapless.pricing.simulators.anchoring import drift_of, unprofiled_ns
from gapless.pricing.simulators.step_of_ranks import mean_longest
from gapless.pricing.simulators.tracing_cost import count_traced, remove_tracing, tracing_cost_ns
from gapless.replay.predict.identity import MAX_ERROR, MAX_UNEXPLAINED
from gapless.replay.predict.mismatch import Alpha, judge_fit
from gapless.replay.predict.uncertainty import widen_by_mismatch

_ONE_RANK: Final = "windows show only one rank: how the others make it wait was not seen"
_NO_JOINT_STEP: Final = "windows show no step of all its ranks"
_ESTIMATED: Final = tuple(leaf for leaf in RANK_WAITS if leaf.endswith("estimated"))


class FidelityCheck(Struct, frozen=True):
    """What predictions rest on; ``error``: by what share it misses steps, if that is much."""

    fidelity: ReplayFidelity
    error: float = 0.0

    def extend_bounds(self, estimate: Estimate) -> Estimate:
        """Return an interval, as wide as the error on unchanged steps demands."""
        return widen_by_mismatch(estimate, self.error)


def rehearse(evidence: Evidence) -> FidelityCheck:
    """Reproduce the unchanged step of several ranks, and return how far off it is."""
    ranks = find_ranks(evidence)
    fidelity = ReplayFidelity(_count_windows(evidence), None, None, None, None)
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
    plain_ns = unprofiled_ns(evidence)
    if plain_ns is None:
        return FidelityCheck(fidelity)
    cost = tracing_cost_ns(evidence)
    events = count_traced(evidence) or 1.0
    error = _joint_step_ns(find_ranks(remove_tracing(evidence, cost[1])), turns_ns) / plain_ns - 1
    low, mid, high = (ns / events for ns in cost)
    alpha = Alpha(low, mid, high, only_bounds=True, error=error)
    alpha = judge_fit(alpha, drift_of(evidence) or 0.0, hosts=not evidence.on_device)
    compared_fidelity = replace(
        fidelity, unprofiled=error, alpha_ns=mid or None, refused=alpha.refused, notes=alpha.notes
    )
    return FidelityCheck(compared_fidelity, error=error if alpha.wide else 0.0)


def _joint_step_ns(ranks: Sequence[Rank], turns_ns: float) -> float:
    """Return the length of the joint step, in ns, computed from each rank's own work."""
    return mean_longest([rank.own_lengths for rank in ranks]) + turns_ns


def _measure_steps(ranks: Sequence[Rank]) -> tuple[float, float]:
    """Return the length of the ranks' step, and their waits for one another in turn."""
    lengths = np.mean([rank.lengths for rank in ranks], axis=0)
    own_ns = np.max([rank.own_lengths for rank in ranks], axis=0)
    return float(lengths.mean()), float(np.median(lengths - own_ns))


def _by_chance(ranks: Sequence[Rank], length_ns: float) -> float:
    """Return the relative error of the mean of so few steps if they were independent (90 %)."""
    own_ns = [rank.own_lengths for rank in ranks]
    square = mean_longest([steps_ns * np.abs(steps_ns) for steps_ns in own_ns])
    return SIGMA * sqrt(max(0.0, square - mean_longest(own_ns) ** 2) / len(own_ns[0])) / length_ns


def _find_refusal(fidelity: ReplayFidelity, allowed: float) -> str | None:
    """Return why nothing can be predicted, by the error on the unchanged step."""
    if fidelity.imputed is not None and abs(fidelity.imputed) > allowed:
        return (
            f"reproduced from each rank's own work, the step is {fidelity.imputed:+.1%} off; "
            f"{allowed:.1%} is allowed"
        )
    if (fidelity.unexplained or 0.0) > MAX_UNEXPLAINED:
        return (
            f"for {fidelity.unexplained:.0%} of the step it is not known which rank others wait for"
        )
    return None


def _count_windows(evidence: Evidence) -> int:
    """Count the windows of all ranks."""
    if evidence.is_trace_only:
        return len(evidence.study.run.paths)
    return evidence.recorded.windows
