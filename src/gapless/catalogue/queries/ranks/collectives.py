"""Queries on the collectives of a step: how many there are of each kind, and what they take."""

from typing import Final

import numpy as np

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

REDUCE_CALL: Final = "c10d::allreduce_"
TRANSFER_LEAF: Final = "comm.exposed"
ISSUE_LEAVES: Final = "idle.comm."
_CALLS: Final = "c10d::*"
_MIN_SIZE_RATIO: Final = 4.0  # of the largest to the smallest reduction, to part α from β
_UNKNOWN_HALF: Final = 0.75  # of the time: between the two bounds
_UNEXCHANGED: Final = ("c10d::send", "c10d::recv_*")


def count_collectives(evidence: Evidence) -> float:
    """Count the collectives of a step of one rank. Raises ``NotObservedError`` without windows."""
    all_calls = windows.sum_calls(evidence, _CALLS).count
    return all_calls - windows.sum_calls(evidence, *_UNEXCHANGED).count


def exposed_ns(evidence: Evidence) -> float:
    """Return what every rank spends on transfers that nothing hides, and on starting them, in ns.

    Waits for a late rank are another cause.
    """
    return rank_waits.min_rank_ns(evidence, TRANSFER_LEAF) + rank_waits.min_rank_ns(
        evidence, ISSUE_LEAVES
    )


def change_exposed(evidence: Evidence, remaining: Estimate) -> Change:
    """Return the change that leaves so much of the collectives that nothing hides."""
    if evidence.on_device:
        return Scale(remaining, leaves=(TRANSFER_LEAF,))
    return HostChange((TRANSFER_LEAF, ISSUE_LEAVES), remaining)


def factor_of_half(evidence: Evidence) -> Estimate | None:
    """Return the factor of the time of reductions of half as many bytes; ``None``: sizes unknown.

    A reduction takes α + β × bytes: fitted to those of the run where their sizes differ enough.
    Otherwise no more is known than that it takes from half of the time to all of it.
    """
    rows = [
        row
        for row in evidence.study.tables.collectives
        if row.bytes and "reduce" in row.name.lower()
    ]
    if not rows:
        return None
    sizes = np.array([row.bytes or 0 for row in rows], float)
    counts = np.array([row.calls for row in rows], float)
    times_ns = np.array([row.device_ns for row in rows], float) / counts
    middle = _UNKNOWN_HALF
    if sizes.max() >= _MIN_SIZE_RATIO * sizes.min():
        slope = max(0.0, float(np.polyfit(sizes, times_ns, 1, w=np.sqrt(counts))[0]))
        total_ns = float(times_ns @ counts)
        middle = max(0.5, 1 - slope * float(sizes @ counts) / 2 / total_ns) if total_ns else middle
    return Estimate(0.5, middle, (1 + middle) / 2)
