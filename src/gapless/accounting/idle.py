"""Why a device was idle: the launch of the work that ended it tells (docs: the account, 5)."""

from dataclasses import replace

import numpy as np

from gapless.accounting.activities import H2D, Activities
from gapless.accounting.charges import Charges, charges, joined
from gapless.accounting.host import Host
from gapless.accounting.intervals import Lane
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64

GAP, LATENCY = (
    20_000,
    100_000,
)  # ns [G]: between queued kernels; from the end of a launch call to its kernel
HOLDS = tuple(
    LEAF[leaf]
    for leaf in (
        "idle.profiler",
        "idle.gc",
        "idle.alloc",
        "idle.alloc.host",
        "idle.alloc.retry",
        "idle.compile",
    )
)


def gaps(owners: Lane, lo: int, hi: int) -> Lane:
    """Give the maximal idle intervals that meet ``[lo, hi)``, owned by what ends each.

    Before its first activity a device is idle since ``lo``; after the last one until ``hi``, and
    then the owner is −1.
    """
    first = min(lo, int(owners.start[0])) if len(owners) else lo
    start = np.concatenate(([first], owners.end))
    end = np.concatenate((owners.start, [hi]))
    ends_it = np.append(owners.owner, -1)
    keep = (start < end) & (end > lo) & (start < hi)
    return Lane(start[keep], end[keep], ends_it[keep])


def idle(free: Lane, acts: Activities, host: Host) -> Charges:
    """Charge idle intervals; the owner is the position in ``acts`` of what ended each, or −1."""
    a, b, n = free.start, free.end, free.owner
    last = n < 0
    in_graph = ~last & (_graph_began(acts)[n] < b) if len(acts) else last & False
    unrecorded = ~last & ~in_graph & ((_at(acts.call, n) < 0) | (b - a < host.clock_error_ns))
    queued = ~last & ~in_graph & ~unrecorded & (_at(acts.call_end, n) <= a)
    late = ~(last | in_graph | unrecorded | queued)
    next_event = _at(acts.event, n)
    short = queued & (b - a <= GAP)
    plain = [
        charges(a[chosen], b[chosen], LEAF[leaf], next_event[chosen])
        for chosen, leaf in (
            (in_graph, "idle.graph"),
            (unrecorded, "idle.unrecorded"),
            (short, "idle.device.gap"),
            (queued & ~short, "idle.device.wait"),
        )
    ]
    tail = host.phi(np.full(int(last.sum()), host.threads.main), a[last], b[last])
    return _by_time([*plain, tail, *_late(Lane(a[late], b[late], n[late]), acts, host)])


def _late(free: Lane, acts: Activities, host: Host) -> list[Charges]:
    """Charge intervals whose launch had not returned when the device fell idle."""
    a, b, n = free.start, free.end, free.owner
    call, thread = acts.call[n], acts.thread[n]
    begins = np.minimum(b, np.maximum(a, acts.call_start[n]))
    returns = np.minimum(b, acts.call_end[n])
    before = host.phi(thread, a, begins)
    made_in = host.phi(thread, acts.call_start[n], acts.call_start[n] + 1)
    under = made_in.leaf[np.searchsorted(made_in.query, np.arange(len(n)))]
    inside = _in_call(host.phi(thread, begins, returns), n, acts, under)
    waits = b - returns
    soon = (waits > 0) & (waits <= LATENCY)
    latency = charges(returns[soon], b[soon], LEAF["idle.launch.latency"], call[soon])
    latency = replace(latency, under=under[soon])
    too_long = waits > LATENCY
    wait = charges(
        returns[too_long], b[too_long], LEAF["idle.device.wait"], acts.event[n][too_long]
    )
    return [before, inside, latency, wait]


def _in_call(during: Charges, n: Int64, acts: Activities, under: Int64) -> Charges:
    """Charge time inside launch calls to what holds the thread, to staging, else to the call."""
    holds = np.isin(during.leaf, HOLDS)
    mine = n[during.query]
    staging = ~holds & (acts.kind[mine] == H2D) & (acts.blocking[mine] > 0)
    api = ~holds & ~staging
    leaf = np.where(staging, LEAF["idle.h2d.host"], LEAF["idle.launch.api"])
    return replace(
        during,
        leaf=np.where(holds, during.leaf, leaf),
        culprit=np.where(holds, during.culprit, acts.call[mine]),
        home=during.home & holds,
        under=np.where(api, under[during.query], -1),
    )


def _graph_began(acts: Activities) -> Int64:
    """Give when the first activity of the same graph launch began; never for all others."""
    began = np.full(len(acts), np.iinfo(np.int64).max)
    mine = np.flatnonzero(acts.graph >= 0)
    order = mine[np.lexsort((acts.start[mine], acts.graph[mine]))]
    launches, first = np.unique(acts.graph[order], return_index=True)
    began[mine] = acts.start[order][first][np.searchsorted(launches, acts.graph[mine])]
    return began


def _at(column: Int64, n: Int64) -> Int64:
    """Look up by position, −1 for position −1."""
    return np.where(n >= 0, column[n], -1) if len(column) else np.full(len(n), -1)


def _by_time(parts: list[Charges]) -> Charges:
    every = joined(parts)
    return every.take(np.argsort(every.start, kind="stable"))
