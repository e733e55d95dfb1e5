"""What a device did: activities in columns, joined with their launches (docs: the account, 2)."""

import re

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from gapless.accounting.host.threads import Threads
from gapless.accounting.intervals import empty_column
from gapless.model import category
from gapless.model.trace import Int64, Trace

KINDS = ("compute", "comm", "h2d", "d2h", "p2p")  # in the order in which they own a device
COMPUTE, COMM, H2D, D2H, P2P = range(5)
BLOCK_SLACK, BLOCK_MIN = 25_000, 40_000  # ns; a call that blocks ends with its copy, and is long
_COMM = re.compile(
    r"(?i)^(nccl|rccl|mscclpp|nvshmem)|ncclDevKernel|ncclKernel"
    r"|^(all-(reduce|gather|to-all)|reduce-scatter|collective-(permute|broadcast))\b"  # of XLA
)


class Activities(Struct, frozen=True):
    """Activities without duplicates, sorted by (device, start, stream, correlation, graph node)."""

    event: Int64
    start: Int64
    end: Int64
    device: Int64
    stream: Int64
    kind: Int64  # → KINDS
    call: Int64  # the event that launched it, −1 if not recorded
    call_start: Int64  # of the call; the activity's own start where there is none
    call_end: Int64
    thread: Int64  # track of the call, −1
    graph: Int64  # the graph launch (event) that it belongs to, −1
    operator: Int64  # event of the innermost operator open at call_start on its thread, −1
    blocking: Int64  # 1: a copy during which its call blocked the host

    def __len__(self) -> int:
        """Count the activities."""
        return len(self.event)

    def of_device(self, device: int) -> "Activities":
        """Return the activities of one device."""
        rows = slice(*np.searchsorted(self.device, [device, device + 1]).tolist())
        return replace(self, **{name: column[rows] for name, column in asdict(self).items()})


def collect_activities(trace: Trace, threads: Threads) -> Activities:
    """Collect a trace's activities and join each with its launch record and operator."""
    events, gpu = trace.events, trace.gpu
    rows = np.flatnonzero(
        np.isin(events.category, category.ACTIVITIES) & (events.end > events.start)
    )
    rows = rows[_sort_distinct(trace, rows)]
    start, end = events.start[rows], events.end[rows]
    detail = events.detail[rows]
    call = _find_calls(trace, events.correlation[rows])
    has_call = call >= 0
    call_start = np.where(has_call, events.start[call], start)
    call_end = np.where(has_call, events.end[call], start)
    thread = np.where(has_call, events.track[call], -1).astype(np.int64)
    copies = has_call & (events.category[rows] == category.MEMCPY)
    blocking = copies & (call_end >= end - BLOCK_SLACK) & (call_end - call_start > BLOCK_MIN)
    launches_graph = np.array([name.endswith("GraphLaunch") for name in trace.names], bool)
    graph = (
        np.where(has_call & launches_graph[events.name[call]], call, -1)
        if len(rows)
        else empty_column()
    )
    return Activities(
        event=rows,
        start=start,
        end=end,
        device=gpu.device[detail].astype(np.int64),
        stream=gpu.stream[detail],
        kind=_classify_kinds(trace, rows),
        call=call,
        call_start=call_start,
        call_end=call_end,
        thread=thread,
        graph=graph,
        operator=threads.operator_at(thread, call_start),
        blocking=blocking.astype(np.int64),
    )


def clock_error(acts: Activities) -> int:
    """Return ε: by how much an activity at most seems to start before its launch, in ns."""
    has_call = acts.call >= 0
    return max(0, -int((acts.start - acts.call_start)[has_call].min(initial=0)))


def _sort_distinct(trace: Trace, rows: Int64) -> Int64:
    """Sort by (device, start, stream, correlation, graph node), without duplicates of that key."""
    events, gpu = trace.events, trace.gpu
    detail = events.detail[rows]
    key = (
        gpu.graph_node[detail],
        events.correlation[rows],
        gpu.stream[detail],
        events.start[rows],
        gpu.device[detail].astype(np.int64),
    )
    order = np.lexsort(key)
    is_new = np.zeros(len(rows), bool)
    is_new[:1] = True
    for column in key:
        is_new[1:] |= column[order][1:] != column[order][:-1]
    return order[is_new]


def _find_calls(trace: Trace, correlation: Int64) -> Int64:
    """Find the runtime or driver event of each correlation id: smallest start, then largest end."""
    events = trace.events
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & (events.correlation > 0))
    if not len(calls):
        return np.full(len(correlation), -1)
    ids = events.correlation[calls]
    order = np.lexsort((-events.end[calls], events.start[calls], ids))
    ids = ids[order]
    position = np.minimum(np.searchsorted(ids, correlation), len(ids) - 1)
    return np.where((correlation > 0) & (ids[position] == correlation), calls[order][position], -1)


def _classify_kinds(trace: Trace, rows: Int64) -> Int64:
    """Return each activity's kind: communication by name, copies by direction, else compute."""
    names = trace.events.name[rows]
    comm = np.array([_COMM.search(name) is not None for name in trace.names], bool)
    direction = np.array([_copy_kind(name) for name in trace.names], np.int64)
    is_copy = trace.events.category[rows] == category.MEMCPY
    return np.where(comm[names], COMM, np.where(is_copy, direction[names], COMPUTE))


def _copy_kind(name: str) -> int:
    for kind, text in ((H2D, "HtoD"), (D2H, "DtoH"), (P2P, "PtoP")):
        if text in name:
            return kind
    for kind, text in ((H2D, "HostToDevice"), (D2H, "DeviceToHost")):  # ROCm
        if text in name:
            return kind
    return COMPUTE
