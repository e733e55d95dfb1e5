"""Queries on the collectives of a step: how many there are of each kind, and what they take."""

from typing import Final

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.change import Bucket, Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence

REDUCE_CALL: Final = "c10d::allreduce_"
TRANSFER_LEAF: Final = "comm.exposed"
ISSUE_LEAVES: Final = "idle.comm."
_BYTES_SHARE: Final = Estimate(0.0, 0.5, 1.0)
_SMALL_SHARE: Final = Estimate(0.0, 0.15, 0.5)
_SMALL_BYTES: Final = 2**20
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


def change_buckets(evidence: Evidence, count: int, mean_bytes: float) -> Change:
    """Return the change that reduces gradients in so many buckets, during the backward pass.

    ``mean_bytes``: of a reduction as it is. Without a device it is not known what of one its bytes
    take, and what the call; of small ones little.
    """
    if evidence.on_device:
        return Bucket(count)
    return Bucket(count, _SMALL_SHARE if mean_bytes < _SMALL_BYTES else _BYTES_SHARE)


def change_exposed(evidence: Evidence, remaining: Estimate) -> Change:
    """Return the change that leaves so much of the collectives that nothing hides."""
    if evidence.on_device:
        return Scale(remaining, leaves=(TRANSFER_LEAF,))
    return HostChange((TRANSFER_LEAF, ISSUE_LEAVES), remaining)
