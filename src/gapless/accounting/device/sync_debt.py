"""Sync debt: why a synchronisation costs time after it has returned (docs: the account, 8)."""

from bisect import bisect_right

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless.accounting.charges import Charges, stack_charges
from gapless.accounting.device.activities import Activities
from gapless.accounting.host.host import HostSide
from gapless.accounting.host.tags import ALLOC, SYNC
from gapless.accounting.intervals import NO_LANE, Lane, cover, union
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64, Trace

_RELABELLED_LEAVES = tuple(
    LEAF[leaf]
    for leaf in (
        "idle.host.python",
        "idle.host.engine",
        "idle.host.dispatch",
        "idle.host.optimizer",
        "idle.launch.api",
        "idle.launch.latency",
    )
)
_PREFIXES = (
    "idle.h2d.host",
    "idle.gc",
    "idle.alloc",
    "idle.compile",
    "idle.io_main",
    "idle.host.unframed",
)
_KEEPING_LEAVES = tuple(code for leaf, code in LEAF.items() if leaf.startswith(_PREFIXES))
_REFILL = LEAF["idle.sync.refill"]
_NO_NAME, _ELSEWHERE = -1, -2  # in place of the stream that a synchronisation names


class Debt(Struct, frozen=True):
    """Device time that a sync covered, so that the host could not run ahead by it."""

    since: int
    amount: int
    sync: int  # event
    expires: int


def find_debts(host: HostSide, acts: Activities, bounds: Int64) -> list[Debt]:
    """Return the debts of a device in order of time.

    Each expires at the second window boundary after its sync.
    """
    trace, order = host.threads.trace, host.context.order
    events = trace.events
    frames = host.threads.frames
    syncs = frames[np.isin(order[frames], (SYNC, ALLOC)) & (events.start[frames] >= bounds[0])]
    syncs = syncs[np.lexsort((syncs, events.start[syncs], events.end[syncs]))]
    streams = _collect_streams(acts)
    stream_by_sync = _find_named_streams(trace, syncs, acts)
    counted_until, debts, limits = int(bounds[0]), list[Debt](), bounds.tolist()
    rows = zip(
        syncs.tolist(),
        events.start[syncs].tolist(),
        events.end[syncs].tolist(),
        stream_by_sync.tolist(),
        (order[syncs] == ALLOC).tolist(),
        strict=True,
    )
    for sync, start, end, named_stream, is_alloc in rows:
        bound = [
            (stream, last_row)
            for stream, last_row in ((stream, stream.last_before(start)) for stream in streams)
            if last_row >= 0 and _is_bound(stream, last_row, end, named_stream)
        ]
        if is_alloc and not any(stream.ends[last_row] > start for stream, last_row in bound):
            continue
        amount = _measure_running(bound, max(start, counted_until), end)
        counted_until = max(counted_until, end)
        if amount:
            boundary = bisect_right(limits, end) + 1
            expires = limits[boundary] if boundary < len(limits) else limits[-1] + 1
            debts.append(Debt(end, amount, sync, expires))
    return debts


def pay_debts(idle_charges: Charges, debts: list[Debt]) -> tuple[Charges, list[Debt]]:
    """Let the work of the training process in idle time pay what is owed, oldest debt first.

    Time is measured in payable nanoseconds: in that coordinate every debt is one interval, since
    debts are paid in the order in which they arise and expire in that order too. What is left is
    returned, for the idle time that follows.
    """
    payable = (
        np.isin(idle_charges.leaf, _RELABELLED_LEAVES)
        | np.isin(idle_charges.leaf, _KEEPING_LEAVES)
        | idle_charges.is_loading
    )
    rows = np.flatnonzero(payable)
    payable_ns = np.concatenate(([0], np.cumsum(idle_charges.end[rows] - idle_charges.start[rows])))
    lane, unpaid = _find_payments(debts, idle_charges.take(rows), payable_ns)
    if not len(lane):
        return idle_charges, unpaid
    cut = cover(lane, payable_ns[:-1], payable_ns[1:])
    source = rows[cut.query]
    shift = idle_charges.start[source] - payable_ns[cut.query]
    paying = replace(idle_charges.take(source), start=cut.start + shift, end=cut.end + shift)
    sync = np.where(cut.piece >= 0, lane.owner[cut.piece], -1)
    is_relabelled = (sync >= 0) & np.isin(paying.leaf, _RELABELLED_LEAVES)
    paying = replace(
        paying,
        leaf=np.where(is_relabelled, _REFILL, paying.leaf),
        under=np.where(is_relabelled, paying.leaf, paying.under),
        culprit=np.where(is_relabelled, sync, paying.culprit),
        refill=sync,
    )
    charges = stack_charges([idle_charges.take(~payable), paying])
    return charges.take(np.argsort(charges.start, kind="stable")), unpaid


def _find_payments(debts: list[Debt], work: Charges, payable_ns: Int64) -> tuple[Lane, list[Debt]]:
    """Return the stretches of payable time that pay, each owned by its sync, and what is left."""
    if not debts or not len(work):
        return NO_LANE, debts

    def to_payable(instants: Int64) -> list[int]:
        piece = np.searchsorted(work.start, instants, side="right") - 1
        inside = np.minimum(instants, work.end[piece]) - work.start[piece]
        return np.where(piece >= 0, payable_ns[piece] + inside, 0).tolist()

    begins = to_payable(np.array([debt.since for debt in debts], np.int64))
    expires = to_payable(np.array([debt.expires for debt in debts], np.int64))
    work_end = int(work.end[-1])
    payments, unpaid, paid_until = list[tuple[int, int, int]](), list[Debt](), 0
    for debt, arises, limit in zip(debts, begins, expires, strict=True):
        begin = max(arises, paid_until)
        stop = max(begin, min(begin + debt.amount, limit))
        if stop > begin:
            payments.append((begin, stop, debt.sync))
            paid_until = stop
        remaining_ns = debt.amount - (stop - begin)
        if remaining_ns and debt.expires > work_end:
            unpaid.append(replace(debt, amount=remaining_ns))
    columns = np.array(payments, np.int64).reshape(-1, 3)
    return Lane(columns[:, 0], columns[:, 1], columns[:, 2]), unpaid


class _Stream(Struct, frozen=True):
    """The activities of one stream in the order of their launches."""

    number: int
    launches: Int64
    starts: Int64
    ends: Int64
    reach: Int64  # the latest end so far

    def last_before(self, now_ns: int) -> int:
        """Return the last activity that was enqueued before an instant, −1 without one."""
        return int(np.searchsorted(self.launches, now_ns)) - 1


def _collect_streams(acts: Activities) -> list[_Stream]:
    streams: list[_Stream] = []
    for number in np.unique(acts.stream).tolist():
        rows = np.flatnonzero(acts.stream == number)
        rows = rows[np.lexsort((acts.start[rows], acts.call_start[rows]))]
        ends = acts.end[rows]
        reach = np.maximum.accumulate(ends)
        streams.append(_Stream(number, acts.call_start[rows], acts.start[rows], ends, reach))
    return streams


def _is_bound(stream: _Stream, last_row: int, end: int, named_stream: int) -> bool:
    return (
        stream.number == named_stream
        if named_stream != _NO_NAME
        else bool(stream.ends[last_row] <= end)
    )


def _measure_running(bound: list[tuple[_Stream, int]], lo: int, hi: int) -> int:
    """Measure the time in ``[lo, hi)`` in which an enqueued activity of a bound stream runs."""
    starts, ends = list[Int64](), list[Int64]()
    for stream, last_row in bound:
        first_row = int(np.searchsorted(stream.reach, lo, side="right"))
        s, e = stream.starts[first_row : last_row + 1], stream.ends[first_row : last_row + 1]
        is_near = (e > lo) & (s < hi)
        starts.append(np.maximum(s[is_near], lo))
        ends.append(np.minimum(e[is_near], hi))
    if not starts:
        return 0
    lane = union(np.concatenate(starts), np.concatenate(ends))
    return int((lane.end - lane.start).sum())


def _find_named_streams(trace: Trace, syncs: Int64, acts: Activities) -> Int64:
    """Return the stream that a device's record of a synchronisation names, or that it names none.

    A record of another device than that of the activities names no stream of theirs.
    """
    events, gpu = trace.events, trace.gpu
    records = np.flatnonzero((events.category == category.SYNC) & (events.correlation > 0))
    detail = events.detail[records]
    wait_streams = gpu.wait_stream[detail]
    stream = np.where(wait_streams >= 0, wait_streams, gpu.stream[detail])
    is_device_wide = np.array(["Context" in name or "Device" in name for name in trace.names], bool)
    stream = np.where(is_device_wide[events.name[records]] | (stream < 0), _NO_NAME, stream)
    known_devices = np.append(acts.device[:1], -1)
    stream = np.where(np.isin(gpu.device[detail], known_devices), stream, _ELSEWHERE)
    order = np.argsort(events.correlation[records], kind="stable")
    ids = events.correlation[records][order]
    if not len(ids):
        return np.full(len(syncs), _NO_NAME)
    sync_ids = events.correlation[syncs]
    position = np.minimum(np.searchsorted(ids, sync_ids), len(ids) - 1)
    return np.where((sync_ids > 0) & (ids[position] == sync_ids), stream[order][position], _NO_NAME)
