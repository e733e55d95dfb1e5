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

from gapless.catalogue.ranked import WAITS, Rank, ranks_of
from gapless.model.finding import Rehearsal
from gapless.model.interval import SIGMA, Interval
from gapless.model.seen import Seen
from gapless.model.study import Study
from gapless.replay.identity import ALLOWED, UNEXPLAINED
from gapless.replay.mismatch import Alpha, judged
from gapless.replay.uncertainty import wider
from gapless.study.anchoring import drift_of, unprofiled_ns
from gapless.study.slowest import longest
from gapless.study.tracing import eased, traced, tracing

_ALONE: Final = "windows tell of one rank alone: how the others make it wait was not seen"
_APART: Final = "windows show no step of all its ranks"
_ESTIMATED: Final = tuple(leaf for leaf in WAITS if leaf.endswith("estimated"))


@dataclass(frozen=True)
class Rehearsed:
    """What predictions rest on; ``off``: by what share it misses steps, if that is much."""

    rehearsal: Rehearsal
    off: float = 0.0

    def widened(self, found: Interval) -> Interval:
        """Give an interval, as wide as unchanged steps ask for."""
        return wider(found, self.off)


def rehearse(seen: Seen) -> Rehearsed:
    """Make the unchanged step of several ranks again, and say how far off it is."""
    ranks = ranks_of(seen)
    found = Rehearsal(_windows(seen.study), None, None, None, None)
    if not ranks:
        return Rehearsed(replace(found, windows=0, refused=_ALONE))
    if len({len(one.rows) for one in ranks}) > 1:
        return Rehearsed(replace(found, refused=_APART))
    lengths, turns = _met(ranks)
    found = replace(
        found,
        imputed=_made(ranks, turns) / lengths - 1,
        unexplained=sum(one.mean(*_ESTIMATED) for one in ranks) / len(ranks) / lengths,
    )
    why = _untrue(found, max(ALLOWED, _by_chance(ranks, lengths)))
    if why is not None:
        return Rehearsed(replace(found, refused=why))
    return _anchored(seen, found, turns)


def _anchored(seen: Seen, found: Rehearsal, turns: float) -> Rehearsed:
    """Compare with the steps that no profiler saw."""
    plain = unprofiled_ns(seen.study)
    if plain is None:
        return Rehearsed(found)
    cost = tracing(seen)
    events = traced(seen) or 1.0
    error = _made(ranks_of(eased(seen, cost[1])), turns) / plain - 1
    low, mid, high = (ns / events for ns in cost)
    alpha = Alpha(low, mid, high, bound=True, error=error)
    alpha = judged(alpha, drift_of(seen.study) or 0.0, hosts=not seen.on_device)
    told = replace(
        found, unprofiled=error, alpha_ns=mid or None, refused=alpha.refused, notes=alpha.notes
    )
    return Rehearsed(told, off=error if alpha.wide else 0.0)


def _made(ranks: Sequence[Rank], turns: float) -> float:
    """Give how long the joint step is, in ns, made of each rank's own work."""
    return longest([one.own for one in ranks]) + turns


def _met(ranks: Sequence[Rank]) -> tuple[float, float]:
    """Give how long a step of the ranks is, and what of it they wait for one another in turn."""
    lengths = np.mean([one.lengths for one in ranks], axis=0)
    own = np.max([one.own for one in ranks], axis=0)
    return float(lengths.mean()), float(np.median(lengths - own))


def _by_chance(ranks: Sequence[Rank], length: float) -> float:
    """Give by what share of a step the mean of so few steps is off, were they independent: 90 %."""
    own = [one.own for one in ranks]
    square = longest([one * np.abs(one) for one in own])
    return SIGMA * sqrt(max(0.0, square - longest(own) ** 2) / len(own[0])) / length


def _untrue(found: Rehearsal, allowed: float) -> str | None:
    """Say why the unchanged step tells that nothing can be predicted."""
    if found.imputed is not None and abs(found.imputed) > allowed:
        return (
            f"made again of each rank's own work, the step is {found.imputed:+.1%} off; "
            f"{allowed:.1%} is allowed"
        )
    if (found.unexplained or 0.0) > UNEXPLAINED:
        return f"for which rank others wait is not known of {found.unexplained:.0%} of the step"
    return None


def _windows(study: Study) -> int:
    """Count the windows of all ranks."""
    return len(study.run.paths) if study.recorded is None else study.recorded.windows
