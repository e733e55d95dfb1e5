"""Queries on the collectives of a step: how many there are of each kind, and what they take."""

from typing import Final

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

REDUCE_CALL: Final = "c10d::allreduce_"
TRANSFER_LEAF: Final = "comm.exposed"
ISSUE_LEAVES: Final = "idle.comm."
_CALLS: Final = "c10d::*"
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
