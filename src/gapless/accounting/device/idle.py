"""Why a device was idle: the launch of the work that ended it shows it (docs: the account, 5)."""

import numpy as np
from msgspec.structs import replace

from gapless.accounting.charges import Charges, make_charges, merge_charges
from gapless.accounting.device.activities import H2D, Activities
from gapless.accounting.host.host import HostSide
from gapless.accounting.intervals import Lane
from gapless.model.leaf import LEAF
from gapless.model.trace import Int64

# ns, assumed: between queued kernels; from the end of a launch call to its kernel
GAP, LATENCY = (20_000, 100_000)
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


def idle_gaps(owners: Lane, lo: int, hi: int) -> Lane:
    """Return the maximal idle intervals that meet ``[lo, hi)``, owned by what ends each.

    Before its first activity a device is idle since ``lo``; after the last one until ``hi``, and
    then the owner is −1.
    """
    begin = min(lo, int(owners.start[0])) if len(owners) else lo
    start = np.concatenate(([begin], owners.end))
    end = np.concatenate((owners.start, [hi]))
    enders = np.append(owners.owner, -1)
    keep = (start < end) & (end > lo) & (start < hi)
    return Lane(start[keep], end[keep], enders[keep])


def charge_idle(idle_lane: Lane, acts: Activities, host: HostSide) -> Charges:
    """Charge idle intervals; the owner is the position in ``acts`` of what ended each, or −1."""
    a, b, n = idle_lane.start, idle_lane.end, idle_lane.owner
    is_tail = n < 0
    in_graph = ~is_tail & (_graph_starts(acts)[n] < b) if len(acts) else is_tail & False
    is_unrecorded = (
        ~is_tail & ~in_graph & ((_look_up(acts.call, n) < 0) | (b - a < host.clock_error_ns))
    )
    is_queued = ~is_tail & ~in_graph & ~is_unrecorded & (_look_up(acts.call_end, n) <= a)
    is_late = ~(is_tail | in_graph | is_unrecorded | is_queued)
    next_event = _look_up(acts.event, n)
    is_short = is_queued & (b - a <= GAP)
    plain = [
        make_charges(a[rows], b[rows], LEAF[leaf], next_event[rows])
        for rows, leaf in (
            (in_graph, "idle.graph"),
            (is_unrecorded, "idle.unrecorded"),
            (is_short, "idle.device.gap"),
            (is_queued & ~is_short, "idle.device.wait"),
        )
    ]
    tail = host.phi(np.full(int(is_tail.sum()), host.threads.main), a[is_tail], b[is_tail])
    return _sort_by_time(
        [*plain, tail, *_charge_late(Lane(a[is_late], b[is_late], n[is_late]), acts, host)]
    )


def _charge_late(idle_lane: Lane, acts: Activities, host: HostSide) -> list[Charges]:
    """Charge intervals whose launch had not returned when the device fell idle."""
    a, b, n = idle_lane.start, idle_lane.end, idle_lane.owner
    call, thread = acts.call[n], acts.thread[n]
    begins = np.minimum(b, np.maximum(a, acts.call_start[n]))
    returns = np.minimum(b, acts.call_end[n])
    before_call = host.phi(thread, a, begins)
    at_launch = host.phi(thread, acts.call_start[n], acts.call_start[n] + 1)
    under = at_launch.leaf[np.searchsorted(at_launch.query, np.arange(len(n)))]
    in_call = _charge_call(host.phi(thread, begins, returns), n, acts, under)
    waits = b - returns
    is_soon = (waits > 0) & (waits <= LATENCY)
    latency = make_charges(returns[is_soon], b[is_soon], LEAF["idle.launch.latency"], call[is_soon])
    latency = replace(latency, under=under[is_soon])
    is_long = waits > LATENCY
    wait = make_charges(
        returns[is_long], b[is_long], LEAF["idle.device.wait"], acts.event[n][is_long]
    )
    return [before_call, in_call, latency, wait]


def _charge_call(call_charges: Charges, n: Int64, acts: Activities, under: Int64) -> Charges:
    """Charge time inside launch calls to what holds the thread, to staging, else to the call."""
    is_hold = np.isin(call_charges.leaf, HOLDS)
    activity = n[call_charges.query]
    is_staging = ~is_hold & (acts.kind[activity] == H2D) & (acts.blocking[activity] > 0)
    is_api = ~is_hold & ~is_staging
    leaf = np.where(is_staging, LEAF["idle.h2d.host"], LEAF["idle.launch.api"])
    return replace(
        call_charges,
        leaf=np.where(is_hold, call_charges.leaf, leaf),
        culprit=np.where(is_hold, call_charges.culprit, acts.call[activity]),
        is_loading=call_charges.is_loading & is_hold,
        under=np.where(is_api, under[call_charges.query], -1),
    )


def _graph_starts(acts: Activities) -> Int64:
    """Return when the first activity of the same graph launch began; never for all others."""
    starts = np.full(len(acts), np.iinfo(np.int64).max)
    rows = np.flatnonzero(acts.graph >= 0)
    order = rows[np.lexsort((acts.start[rows], acts.graph[rows]))]
    launches, first_rows = np.unique(acts.graph[order], return_index=True)
    starts[rows] = acts.start[order][first_rows][np.searchsorted(launches, acts.graph[rows])]
    return starts


def _look_up(column: Int64, n: Int64) -> Int64:
    """Look up by position, −1 for position −1."""
    return np.where(n >= 0, column[n], -1) if len(column) else np.full(len(n), -1)


def _sort_by_time(groups: list[Charges]) -> Charges:
    stack = merge_charges(groups)
    return stack.take(np.argsort(stack.start, kind="stable"))
