"""Waits for another device of the same process, where they were recorded (docs: the account, 5).

A device that waits longer than a queue explains is ``idle.device.wait``. If its next work was
enqueued behind a recorded wait for an event, and that event was recorded after work of another
device that was then still running, the time is that device's: its leaf and culprit at the same
instant, its own work becoming ``idle.device.peer``.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.charges import Charges, stack_charges
from gapless.accounting.device.activities import Activities
from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.trace import Int64, Trace

_WAIT, _PEER = LEAF["idle.device.wait"], LEAF["idle.device.peer"]
_WORK = tuple(code for code, leaf in enumerate(LEAVES) if not leaf.startswith("idle."))


class Ties(Struct, frozen=True):
    """Activities (events) that waited for one of another device: which device, and until when."""

    event: Int64
    device: Int64
    until: Int64

    def __len__(self) -> int:
        """Count the ties."""
        return len(self.event)


def find_ties(trace: Trace, acts: Activities) -> Ties:
    """Tie activities to what they waited for on another device, by the recorded waits."""
    events, gpu = trace.events, trace.gpu
    records = np.flatnonzero(events.category == category.SYNC)
    detail = events.detail[records]
    is_wait = (gpu.wait_event[detail] > 0) & (gpu.wait_stream[detail] >= 0)
    is_wait &= np.array(["Wait" in name for name in trace.names], bool)[events.name[records]]
    tie_rows = list[tuple[int, int, int]]()
    start_of = call_starts(trace) if is_wait.any() else {}
    for record, row in zip(records[is_wait].tolist(), detail[is_wait].tolist(), strict=True):
        wait_start = start_of.get(int(events.correlation[record]))
        record_start = start_of.get(int(gpu.wait_event[row]))
        if wait_start is None or record_start is None:
            continue
        device, stream = int(gpu.device[row]), int(gpu.stream[row])
        later = _find_first_after(acts, device, stream, wait_start)
        earlier = _find_last_before(acts, device, int(gpu.wait_stream[row]), record_start)
        if later >= 0 and earlier >= 0:
            tie_rows.append(
                (int(acts.event[later]), int(acts.device[earlier]), int(acts.end[earlier]))
            )
    columns = np.array(tie_rows, np.int64).reshape(-1, 3)
    return Ties(columns[:, 0], columns[:, 1], columns[:, 2])


def explain_waits(pieces: Charges, ties: Ties, charges_by_device: Mapping[int, Charges]) -> Charges:
    """Charge the tied waits of one device as the other devices are charged meanwhile."""
    rows = np.flatnonzero((pieces.leaf == _WAIT) & np.isin(pieces.culprit, ties.event))
    is_plain = np.ones(len(pieces), bool)
    is_plain[rows] = False
    explanations = [
        _explain_wait(pieces.take(rows[index : index + 1]), ties, charges_by_device)
        for index in range(len(rows))
    ]
    charges = stack_charges([pieces.take(is_plain), *explanations])
    return charges.take(np.argsort(charges.start, kind="stable"))


def _explain_wait(piece: Charges, ties: Ties, charges_by_device: Mapping[int, Charges]) -> Charges:
    """Replace the part of one wait in which the device that it waited for was still at work."""
    tie_rows = np.flatnonzero(ties.event == piece.culprit[0])
    tie = tie_rows[ties.until[tie_rows].argmax()]
    until = np.minimum(piece.end, np.maximum(ties.until[tie], piece.start))
    peer = charges_by_device.get(int(ties.device[tie]))
    if peer is None or until[0] <= piece.start[0]:
        return piece
    lo = int(np.searchsorted(peer.end, int(piece.start[0]), side="right"))
    hi = int(np.searchsorted(peer.start, int(until[0])))
    peer_charges = peer.take(np.arange(lo, hi))
    peer_charges = replace(
        peer_charges,
        query=np.full(len(peer_charges), piece.query[0]),
        start=np.maximum(peer_charges.start, piece.start[0]),
        end=np.minimum(peer_charges.end, until[0]),
        leaf=np.where(np.isin(peer_charges.leaf, _WORK), _PEER, peer_charges.leaf),
        refill=np.full(len(peer_charges), -1),
    )
    gap = peer_charges.start[0] if len(peer_charges) else until[0]
    head = replace(piece, end=np.minimum(piece.end, gap))
    tail = replace(piece, start=peer_charges.end[-1:] if len(peer_charges) else until)
    edges = [edge.take(edge.end > edge.start) for edge in (head, tail)]
    return stack_charges([edges[0], peer_charges, edges[1]])


def call_starts(trace: Trace) -> dict[int, int]:
    """Return when each call began, by correlation id."""
    events = trace.events
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & (events.correlation > 0))
    return dict(zip(events.correlation[calls].tolist(), events.start[calls].tolist(), strict=True))


def _find_first_after(acts: Activities, device: int, stream: int, now_ns: int) -> int:
    """Return the first activity enqueued on a stream from an instant on, −1 without one."""
    rows = np.flatnonzero(
        (acts.device == device) & (acts.stream == stream) & (acts.call_start >= now_ns)
    )
    return int(rows[acts.call_start[rows].argmin()]) if len(rows) else -1


def _find_last_before(acts: Activities, device: int, stream: int, now_ns: int) -> int:
    """Return what was enqueued last on another device's stream before an instant, or −1."""
    rows = np.flatnonzero(
        (acts.device != device) & (acts.stream == stream) & (acts.call_start < now_ns)
    )
    return int(rows[acts.call_start[rows].argmax()]) if len(rows) else -1
