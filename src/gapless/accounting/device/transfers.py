"""Communication cut into waiting for the last rank and transfer (docs: the account, 4)."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.charges import Charges, stack_charges
from gapless.accounting.device.activities import COMM, Activities
from gapless.accounting.ranks.collectives import Arrivals
from gapless.model.leaf import LEAF
from gapless.model.trace import Collective, Int64, Trace

_QUANTILE = 0.1  # of the durations of like collectives: taken for the transfer alone
_EXPOSED = LEAF["comm.exposed"]
_STRAGGLER, _ESTIMATED = LEAF["comm.straggler_wait"], LEAF["comm.wait_estimated"]


class Transfers(Struct, frozen=True):
    """For each activity when its transfer began, the leaf of the time before, who was late (−1)."""

    begins: Int64
    leaf: Int64
    peer: Int64


def split_transfers(busy_charges: Charges, acts: Activities, transfers: Transfers) -> Charges:
    """Cut what communication owns (``query``: position in ``acts``) into waiting and transfer."""
    is_comm = acts.kind[busy_charges.query] == COMM
    if not is_comm.any():
        return busy_charges
    return stack_charges(
        [busy_charges.take(~is_comm), split_charges(busy_charges.take(is_comm), transfers)]
    )


def split_charges(charges: Charges, transfers: Transfers) -> Charges:
    """Cut communication (``query``: row of ``transfers``) into waiting and transfer."""
    middle = np.clip(transfers.begins[charges.query], charges.start, charges.end)
    leaf, peer = transfers.leaf[charges.query], transfers.peer[charges.query]
    waits = replace(charges, end=middle, leaf=leaf, peer=np.where(leaf == _STRAGGLER, peer, -1))
    moves = replace(charges, start=middle, leaf=np.full(len(charges), _EXPOSED))
    return stack_charges([piece.take(piece.end > piece.start) for piece in (waits, moves)])


def device_transfers(acts: Activities, trace: Trace, arrivals: Arrivals) -> Transfers:
    """Separate waiting from transfer on a device."""
    return find_transfers((acts.event, acts.start, acts.end), _group_alike(acts, trace), arrivals)


def find_transfers(
    spans: tuple[Int64, Int64, Int64], alike_rows: Sequence[Int64], arrivals: Arrivals
) -> Transfers:
    """Separate waiting from transfer: by the last rank's arrival, else by the quickest of its like.

    ``spans`` are event, start and end; ``alike_rows`` the rows that are of one kind.
    """
    event, start, end = spans
    begins, leaf = start.copy(), np.full(len(event), _STRAGGLER)
    peer = np.full(len(event), -1)
    for group in alike_rows:
        length = end[group] - start[group]
        transfer = np.quantile(length, _QUANTILE, method="lower").astype(np.int64)
        begins[group] = np.maximum(end[group] - transfer, start[group])
        leaf[group] = _ESTIMATED
    order = np.argsort(arrivals.event)
    arrival_events = arrivals.event[order]
    if len(arrival_events):
        position = np.minimum(np.searchsorted(arrival_events, event), len(arrival_events) - 1)
        rows = np.flatnonzero(arrival_events[position] == event)
        last_starts = arrivals.last_start[order][position[rows]]
        begins[rows] = np.clip(last_starts, start[rows], end[rows])
        leaf[rows], peer[rows] = _STRAGGLER, arrivals.rank[order][position[rows]]
    return Transfers(begins, leaf, peer)


def _group_alike(acts: Activities, trace: Trace) -> list[Int64]:
    """Group the communication kernels of the same collective, size and process group."""
    detail = trace.gpu.collective[trace.events.detail[acts.event]]
    groups: dict[Collective, list[int]] = {}
    named_rows = np.flatnonzero((acts.kind == COMM) & (detail >= 0))
    indices: list[int] = detail[named_rows].tolist()
    for row, index in zip(named_rows.tolist(), indices, strict=True):
        groups.setdefault(replace(trace.collectives[index], seq=None), []).append(row)
    return [np.array(rows, np.int64) for rows in groups.values()]
