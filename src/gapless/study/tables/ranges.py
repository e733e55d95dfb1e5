"""The user's own ``record_function`` ranges, without those of torch itself."""

import re
from typing import Final

import numpy as np

from gapless.model import category
from gapless.model.tables import Range
from gapless.study.columns import group
from gapless.study.view import View

_NOT_THE_USERS: Final = re.compile(
    r"^(gapless:|ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#|autograd::|profiler::"
    r"|PyTorch Profiler|Iteration Start|Record Window End|(nccl|gloo|mpi|ucc|c10d):"
    r"|record_param_comms"
    r"|Torch-Compiled Region|TorchDynamo|Pregraph bytecode|AOTDispatcher|CompiledFunction"
    r"|## Call CompiledFxGraph|DistributedDataParallel\.|FullyShardedDataParallel\.|FSDP::)"
)


def range_table(view: View) -> tuple[Range, ...]:
    """Give the user's ranges, the longest first; nested ranges of one name count each."""
    trace, events = view.trace, view.trace.events
    own = np.array([_NOT_THE_USERS.match(name) is None for name in trace.names], bool)
    rows = view.counted(category.USER_ANNOTATION)
    rows = rows[own[events.name[rows]] & (events.end[rows] > events.start[rows])]
    groups = group(events.name[rows])
    host = groups.total(events.end[rows] - events.start[rows])
    calls, launched = groups.count(), view.device_ns(rows)
    device = None if launched is None else groups.total(launched)
    found = [
        Range(
            trace.names[events.name[rows[first]]],
            int(calls[at]),
            int(host[at]),
            None if device is None else int(device[at]),
        )
        for at, first in enumerate(groups.first)
    ]
    return tuple(sorted(found, key=lambda row: (-row.host_ns, row.name)))
