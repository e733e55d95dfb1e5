"""Communication cut into waiting for the last rank and transfer (docs: the account, 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import COMM, Activities
from gapless.accounting.charges import Charges, stacked
from gapless.accounting.collectives import Arrivals
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective, Int64, Trace

_QUANTILE = 0.1  # of the durations of like collectives: taken for the transfer alone
_EXPOSED = LEAF["comm.exposed"]
_STRAGGLER, _ESTIMATED = LEAF["comm.straggler_wait"], LEAF["comm.wait_estimated"]


@dataclass(frozen=True)
class Transfers:
    """For each activity when its transfer began, the leaf of the time before, who was late (−1)."""

    begins: Int64
    leaf: Int64
    peer: Int64


def split(owned: Charges, acts: Activities, arrived: Transfers) -> Charges:
    """Cut what communication owns (``query``: position in ``acts``) into waiting and transfer."""
    comm = acts.kind[owned.query] == COMM
    if not comm.any():
        return owned
    return stacked([owned.take(~comm), parted(owned.take(comm), arrived)])


def parted(mine: Charges, arrived: Transfers) -> Charges:
    """Cut communication (``query``: position in ``arrived``) into waiting and transfer."""
    middle = np.clip(arrived.begins[mine.query], mine.start, mine.end)
    leaf, peer = arrived.leaf[mine.query], arrived.peer[mine.query]
    waiting = replace(mine, end=middle, leaf=leaf, peer=np.where(leaf == _STRAGGLER, peer, -1))
    moving = replace(mine, start=middle, leaf=np.full(len(mine), _EXPOSED))
    return stacked([one.take(one.end > one.start) for one in (waiting, moving)])


def transfers(acts: Activities, trace: Trace, arrivals: Arrivals) -> Transfers:
    """Tell waiting from transfer on a device."""
    return begun((acts.event, acts.start, acts.end), _alike(acts, trace), arrivals)


def begun(
    spans: tuple[Int64, Int64, Int64], alike: Sequence[Int64], arrivals: Arrivals
) -> Transfers:
    """Tell waiting from transfer: by the last rank's arrival, else by the quickest of its like.

    ``spans`` are event, start and end; ``alike`` the rows that are of one kind.
    """
    event, start, end = spans
    begins, leaf = start.copy(), np.full(len(event), _STRAGGLER)
    peer = np.full(len(event), -1)
    for like in alike:
        length = end[like] - start[like]
        transfer = np.quantile(length, _QUANTILE, method="lower").astype(np.int64)
        begins[like] = np.maximum(end[like] - transfer, start[like])
        leaf[like] = _ESTIMATED
    order = np.argsort(arrivals.event)
    known = arrivals.event[order]
    if len(known):
        at = np.minimum(np.searchsorted(known, event), len(known) - 1)
        rows = np.flatnonzero(known[at] == event)
        last = arrivals.last[order][at[rows]]
        begins[rows] = np.clip(last, start[rows], end[rows])
        leaf[rows], peer[rows] = _STRAGGLER, arrivals.rank[order][at[rows]]
    return Transfers(begins, leaf, peer)


def _alike(acts: Activities, trace: Trace) -> list[Int64]:
    """Group the communication kernels of the same collective, size and process group."""
    detail = trace.gpu.collective[trace.events.detail[acts.event]]
    groups: dict[Collective, list[int]] = {}
    named = np.flatnonzero((acts.kind == COMM) & (detail >= 0))
    which: list[int] = detail[named].tolist()
    for row, at in zip(named.tolist(), which, strict=True):
        groups.setdefault(replace(trace.collectives[at], seq=None), []).append(row)
    return [np.array(rows, np.int64) for rows in groups.values()]
