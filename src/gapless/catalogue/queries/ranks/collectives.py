"""Queries on the collectives of a step: how many there are of each kind, and what they take."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gapless.catalogue.queries import windows
from gapless.catalogue.queries.ranks import rank_waits
from gapless.model.change import Change, HostChange, Scale
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.tables import CollectiveRow

REDUCE_CALL: Final = "c10d::allreduce_"
TRANSFER_LEAF: Final = "comm.exposed"
ISSUE_LEAVES: Final = "idle.comm."
_CALLS: Final = "c10d::*"
_MIN_SIZE_RATIO: Final = 4.0  # of the largest to the smallest reduction, to part α from β
_MAX_SMALL_BYTES: Final = 2**18  # of a call: gloo carries them within a part of its latency
_NUMBER_BYTES: Final = 4  # of a number
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


def remains_of_fewer(evidence: Evidence, n_calls: float, n_after: float) -> Estimate | None:
    """Return what remains of exchanges of the same bytes in fewer calls; ``None``: not known.

    A call takes α + β × bytes: only the first is taken less often. On a device both are fitted to
    the collectives of the run. On a host sizes are not recorded: calls of few bytes are all α, or
    half of it at least.
    """
    kept_share = min(1.0, n_after / n_calls) if n_calls else 1.0
    if evidence.on_device:
        bytes_share = _bytes_share(_select_reductions(evidence))
        if bytes_share is None:
            return None
        remaining = bytes_share + (1 - bytes_share) * kept_share
        return Estimate(kept_share * remaining, remaining, 1.0)
    n_bytes = _NUMBER_BYTES * sum(row.parameters or 0 for row in evidence.facts.optimizers)
    if not n_bytes or n_bytes > _MAX_SMALL_BYTES * n_calls:
        return None
    return Estimate(0.0, kept_share, (1 + kept_share) / 2)


def factor_of_half(evidence: Evidence) -> Estimate | None:
    """Return the factor of the time of reductions of half as many bytes; ``None``: sizes unknown.

    A reduction takes α + β × bytes: fitted to those of the run where their sizes differ enough.
    Otherwise no more is known than that it takes from half of the time to all of it.
    """
    rows = _select_reductions(evidence)
    if not rows:
        return None
    bytes_share = _bytes_share(rows)
    middle = _UNKNOWN_HALF if bytes_share is None else max(0.5, 1 - bytes_share / 2)
    return Estimate(0.5, middle, (1 + middle) / 2)


def _select_reductions(evidence: Evidence) -> list[CollectiveRow]:
    return [
        row
        for row in evidence.study.tables.collectives
        if row.bytes and "reduce" in row.name.lower()
    ]


def _bytes_share(rows: Sequence[CollectiveRow]) -> float | None:
    """Return the share of reductions' time that grows with bytes; ``None``: sizes are too alike."""
    sizes = np.array([row.bytes or 0 for row in rows], float)
    counts = np.array([row.calls for row in rows], float)
    times_ns = np.array([row.device_ns for row in rows], float) / counts
    if not len(rows) or sizes.max() < _MIN_SIZE_RATIO * sizes.min() or not times_ns.any():
        return None
    slope = max(0.0, float(np.polyfit(sizes, times_ns, 1, w=np.sqrt(counts))[0]))
    return min(1.0, slope * float(sizes @ counts) / float(times_ns @ counts))
