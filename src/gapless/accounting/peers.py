"""Waits for another device of the same process, where they were recorded (docs: the account, 5).

A device that waits longer than a queue explains is ``idle.device.wait``. If its next work was
enqueued behind a recorded wait for an event, and that event was recorded after work of another
device that was then still running, the time is that device's: its leaf and culprit at the same
instant, its own work becoming ``idle.device.peer``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import Activities
from gapless.accounting.charges import Charges, stacked
from gapless.model import category
from gapless.model.leaf import LEAF, LEAVES
from gapless.model.trace import Int64, Trace

_WAIT, _PEER = LEAF["idle.device.wait"], LEAF["idle.device.peer"]
_WORK = tuple(code for code, leaf in enumerate(LEAVES) if not leaf.startswith("idle."))


@dataclass(frozen=True)
class Ties:
    """Activities (events) that waited for one of another device: which device, and until when."""

    event: Int64
    device: Int64
    until: Int64

    def __len__(self) -> int:
        """Count the ties."""
        return len(self.event)


def ties(trace: Trace, acts: Activities) -> Ties:
    """Tie activities to what they waited for on another device, by the recorded waits."""
    events, gpu = trace.events, trace.gpu
    records = np.flatnonzero(events.category == category.SYNC)
    detail = events.detail[records]
    told = (gpu.wait_event[detail] > 0) & (gpu.wait_stream[detail] >= 0)
    told &= np.array(["Wait" in name for name in trace.names], bool)[events.name[records]]
    found = list[tuple[int, int, int]]()
    start_of = _call_starts(trace) if told.any() else {}
    for record, row in zip(records[told].tolist(), detail[told].tolist(), strict=True):
        waited = start_of.get(int(events.correlation[record]))
        recorded = start_of.get(int(gpu.wait_event[row]))
        if waited is None or recorded is None:
            continue
        device, stream = int(gpu.device[row]), int(gpu.stream[row])
        after = _first_after(acts, device, stream, waited)
        before = _last_before(acts, device, int(gpu.wait_stream[row]), recorded)
        if after >= 0 and before >= 0:
            found.append((int(acts.event[after]), int(acts.device[before]), int(acts.end[before])))
    columns = np.array(found, np.int64).reshape(-1, 3)
    return Ties(columns[:, 0], columns[:, 1], columns[:, 2])


def explain(pieces: Charges, tied: Ties, others: Mapping[int, Charges]) -> Charges:
    """Charge the tied waits of one device as the other devices are charged meanwhile."""
    rows = np.flatnonzero((pieces.leaf == _WAIT) & np.isin(pieces.culprit, tied.event))
    rest = np.ones(len(pieces), bool)
    rest[rows] = False
    explained = [_one(pieces.take(rows[at : at + 1]), tied, others) for at in range(len(rows))]
    every = stacked([pieces.take(rest), *explained])
    return every.take(np.argsort(every.start, kind="stable"))


def _one(piece: Charges, tied: Ties, others: Mapping[int, Charges]) -> Charges:
    """Replace the part of one wait in which the device that it waited for was still at work."""
    mine = np.flatnonzero(tied.event == piece.culprit[0])
    tie = mine[tied.until[mine].argmax()]
    until = np.minimum(piece.end, np.maximum(tied.until[tie], piece.start))
    other = others.get(int(tied.device[tie]))
    if other is None or until[0] <= piece.start[0]:
        return piece
    lo = int(np.searchsorted(other.end, int(piece.start[0]), side="right"))
    hi = int(np.searchsorted(other.start, int(until[0])))
    seen = other.take(np.arange(lo, hi))
    seen = replace(
        seen,
        query=np.full(len(seen), piece.query[0]),
        start=np.maximum(seen.start, piece.start[0]),
        end=np.minimum(seen.end, until[0]),
        leaf=np.where(np.isin(seen.leaf, _WORK), _PEER, seen.leaf),
        refill=np.full(len(seen), -1),
    )
    gap = seen.start[0] if len(seen) else until[0]
    head = replace(piece, end=np.minimum(piece.end, gap))
    tail = replace(piece, start=seen.end[-1:] if len(seen) else until)
    parts = [part.take(part.end > part.start) for part in (head, tail)]
    return stacked([parts[0], seen, parts[1]])


def _call_starts(trace: Trace) -> dict[int, int]:
    events = trace.events
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & (events.correlation > 0))
    return dict(zip(events.correlation[calls].tolist(), events.start[calls].tolist(), strict=True))


def _first_after(acts: Activities, device: int, stream: int, at: int) -> int:
    """Give the first activity that was enqueued on a stream from an instant on, −1 without one."""
    rows = np.flatnonzero(
        (acts.device == device) & (acts.stream == stream) & (acts.call_start >= at)
    )
    return int(rows[acts.call_start[rows].argmin()]) if len(rows) else -1


def _last_before(acts: Activities, device: int, stream: int, at: int) -> int:
    """Give what was enqueued last on another device's stream before an instant, or −1."""
    rows = np.flatnonzero(
        (acts.device != device) & (acts.stream == stream) & (acts.call_start < at)
    )
    return int(rows[acts.call_start[rows].argmax()]) if len(rows) else -1
