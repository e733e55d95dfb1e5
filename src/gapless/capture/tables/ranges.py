"""The user's own ``record_function`` ranges, without those of torch itself."""

import re
from typing import Final

import numpy as np

from gapless.capture.columns import group_rows
from gapless.capture.tables.kind import TableKind, add_fields
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.tables import Range

_NOT_USER_RANGE: Final = re.compile(
    r"^(gapless:|ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#|autograd::|profiler::"
    r"|PyTorch Profiler|Iteration Start|Record Window End|(nccl|gloo|mpi|ucc|c10d):"
    r"|record_param_comms"
    r"|Torch-Compiled Region|TorchDynamo|Pregraph bytecode|AOTDispatcher|CompiledFunction"
    r"|## Call CompiledFxGraph|DistributedDataParallel\.|FullyShardedDataParallel\.|FSDP::)"
)


def range_table(view: CaptureView) -> tuple[Range, ...]:
    """Return the user's ranges, the longest first; nested ranges of one name count each."""
    trace, events = view.trace, view.trace.events
    is_users = np.array([_NOT_USER_RANGE.match(name) is None for name in trace.names], bool)
    rows = view.counted_events(category.USER_ANNOTATION)
    rows = rows[is_users[events.name[rows]] & (events.end[rows] > events.start[rows])]
    groups = group_rows(events.name[rows])
    host = groups.total(events.end[rows] - events.start[rows])
    calls, launched = groups.count(), view.device_ns(rows)
    device = None if launched is None else groups.total(launched)
    ranges = [
        Range(
            trace.names[events.name[rows[row]]],
            int(calls[index]),
            int(host[index]),
            None if device is None else int(device[index]),
        )
        for index, row in enumerate(groups.first_rows)
    ]
    return tuple(sorted(ranges, key=lambda row: (-row.host_ns, row.name)))


TABLE: Final = TableKind(
    lambda view, _: range_table(view),
    lambda row: row.name,
    lambda row, addend: add_fields(row, addend, "calls", "host_ns", "device_ns"),
    lambda row: (-row.host_ns, row.name),
)
