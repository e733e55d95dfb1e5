"""Sync debt: why a synchronisation costs time after it has returned (docs: the account, 8)."""

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from gapless.accounting.activities import Activities
from gapless.accounting.charges import Charges, stacked
from gapless.accounting.host import Host
from gapless.accounting.intervals import NO_LANE, Lane, cover, union
from gapless.accounting.tags import ALLOC, SYNC
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64, Trace

_RELABELLED = tuple(
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
_KEPT = tuple(code for leaf, code in LEAF.items() if leaf.startswith(_PREFIXES))
_REFILL = LEAF["idle.sync.refill"]
_NO_NAME, _ELSEWHERE = -1, -2  # in place of the stream that a synchronisation names


@dataclass(frozen=True)
class Debt:
    """Device time that a sync covered, so that the host could not run ahead by it."""

    since: int
    amount: int
    sync: int  # event
    expires: int


def debts(host: Host, acts: Activities, bounds: Int64) -> list[Debt]:
    """Give the debts of a device in order of time.

    Each expires at the second window boundary after its sync.
    """
    trace, order = host.threads.trace, host.context.order
    events = trace.events
    frames = host.threads.frames
    syncs = frames[np.isin(order[frames], (SYNC, ALLOC)) & (events.start[frames] >= bounds[0])]
    syncs = syncs[np.lexsort((syncs, events.start[syncs], events.end[syncs]))]
    streams = _streams(acts)
    named = _named_streams(trace, syncs, acts)
    counted, found, limits = int(bounds[0]), list[Debt](), bounds.tolist()
    rows = zip(
        syncs.tolist(),
        events.start[syncs].tolist(),
        events.end[syncs].tolist(),
        named.tolist(),
        (order[syncs] == ALLOC).tolist(),
        strict=True,
    )
    for sync, start, end, name, is_alloc in rows:
        bound = [
            (stream, last)
            for stream, last in ((s, s.last_before(start)) for s in streams)
            if last >= 0 and _is_bound(stream, last, end, name)
        ]
        if is_alloc and not any(stream.ends[last] > start for stream, last in bound):
            continue
        amount = _running(bound, max(start, counted), end)
        counted = max(counted, end)
        if amount:
            after = bisect_right(limits, end) + 1
            expires = limits[after] if after < len(limits) else limits[-1] + 1
            found.append(Debt(end, amount, sync, expires))
    return found


def pay(free: Charges, owed: list[Debt]) -> tuple[Charges, list[Debt]]:
    """Let the work of the training process in idle time pay what is owed, oldest debt first.

    Time is measured in payable nanoseconds: in that coordinate every debt is one interval, since
    debts are paid in the order in which they arise and expire in that order too. What is left is
    given back, for the idle time that follows.
    """
    payable = np.isin(free.leaf, _RELABELLED) | np.isin(free.leaf, _KEPT) | free.home
    rows = np.flatnonzero(payable)
    upto = np.concatenate(([0], np.cumsum(free.end[rows] - free.start[rows])))
    lane, left = _payments(owed, free.take(rows), upto)
    if not len(lane):
        return free, left
    cut = cover(lane, upto[:-1], upto[1:])
    source = rows[cut.query]
    shift = free.start[source] - upto[cut.query]
    paid = replace(free.take(source), start=cut.start + shift, end=cut.end + shift)
    sync = np.where(cut.piece >= 0, lane.owner[cut.piece], -1)
    relabelled = (sync >= 0) & np.isin(paid.leaf, _RELABELLED)
    paid = replace(
        paid,
        leaf=np.where(relabelled, _REFILL, paid.leaf),
        under=np.where(relabelled, paid.leaf, paid.under),
        culprit=np.where(relabelled, sync, paid.culprit),
        refill=sync,
    )
    every = stacked([free.take(~payable), paid])
    return every.take(np.argsort(every.start, kind="stable")), left


def _payments(owed: list[Debt], work: Charges, upto: Int64) -> tuple[Lane, list[Debt]]:
    """Give the stretches of payable time that pay, each owned by its sync, and what is left."""
    if not owed or not len(work):
        return NO_LANE, owed

    def clock(at: Int64) -> list[int]:
        piece = np.searchsorted(work.start, at, side="right") - 1
        inside = np.minimum(at, work.end[piece]) - work.start[piece]
        return np.where(piece >= 0, upto[piece] + inside, 0).tolist()

    begins = clock(np.array([debt.since for debt in owed], np.int64))
    expires = clock(np.array([debt.expires for debt in owed], np.int64))
    until = int(work.end[-1])
    out, left, done = list[tuple[int, int, int]](), list[Debt](), 0
    for debt, arises, limit in zip(owed, begins, expires, strict=True):
        begin = max(arises, done)
        stop = max(begin, min(begin + debt.amount, limit))
        if stop > begin:
            out.append((begin, stop, debt.sync))
            done = stop
        rest = debt.amount - (stop - begin)
        if rest and debt.expires > until:
            left.append(replace(debt, amount=rest))
    columns = np.array(out, np.int64).reshape(-1, 3)
    return Lane(columns[:, 0], columns[:, 1], columns[:, 2]), left


@dataclass(frozen=True)
class _Stream:
    """The activities of one stream in the order of their launches."""

    number: int
    launched: Int64
    starts: Int64
    ends: Int64
    reach: Int64  # the latest end so far

    def last_before(self, at: int) -> int:
        """Give the last activity that was enqueued before an instant, −1 without one."""
        return int(np.searchsorted(self.launched, at)) - 1


def _streams(acts: Activities) -> list[_Stream]:
    found: list[_Stream] = []
    for number in np.unique(acts.stream).tolist():
        rows = np.flatnonzero(acts.stream == number)
        rows = rows[np.lexsort((acts.start[rows], acts.call_start[rows]))]
        ends = acts.end[rows]
        reach = np.maximum.accumulate(ends)
        found.append(_Stream(number, acts.call_start[rows], acts.start[rows], ends, reach))
    return found


def _is_bound(stream: _Stream, last: int, end: int, named: int) -> bool:
    return stream.number == named if named != _NO_NAME else bool(stream.ends[last] <= end)


def _running(bound: list[tuple[_Stream, int]], lo: int, hi: int) -> int:
    """Measure the time in ``[lo, hi)`` in which an enqueued activity of a bound stream runs."""
    starts, ends = list[Int64](), list[Int64]()
    for stream, last in bound:
        first = int(np.searchsorted(stream.reach, lo, side="right"))
        s, e = stream.starts[first : last + 1], stream.ends[first : last + 1]
        near = (e > lo) & (s < hi)
        starts.append(np.maximum(s[near], lo))
        ends.append(np.minimum(e[near], hi))
    if not starts:
        return 0
    lane = union(np.concatenate(starts), np.concatenate(ends))
    return int((lane.end - lane.start).sum())


def _named_streams(trace: Trace, syncs: Int64, acts: Activities) -> Int64:
    """Give the stream that a device's own record of a synchronisation names, or that it names none.

    A record of another device than that of the activities names no stream of theirs.
    """
    events, gpu = trace.events, trace.gpu
    records = np.flatnonzero((events.category == category.SYNC) & (events.correlation > 0))
    detail = events.detail[records]
    waited = gpu.wait_stream[detail]
    stream = np.where(waited >= 0, waited, gpu.stream[detail])
    whole = np.array(["Context" in name or "Device" in name for name in trace.names], bool)
    stream = np.where(whole[events.name[records]] | (stream < 0), _NO_NAME, stream)
    known = np.append(acts.device[:1], -1)
    stream = np.where(np.isin(gpu.device[detail], known), stream, _ELSEWHERE)
    order = np.argsort(events.correlation[records], kind="stable")
    ids = events.correlation[records][order]
    if not len(ids):
        return np.full(len(syncs), _NO_NAME)
    wanted = events.correlation[syncs]
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where((wanted > 0) & (ids[at] == wanted), stream[order][at], _NO_NAME)
