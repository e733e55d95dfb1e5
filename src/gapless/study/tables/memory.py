"""Memory: what allocator events say of each device within the counted steps."""

import numpy as np

from gapless.model.tables import Memory
from gapless.model.trace import Int64
from gapless.study.columns import group
from gapless.study.view import View

_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 8: "xla", 12: "xpu", 13: "mps", 17: "mtia"}  # DeviceType.h


def memory_table(view: View) -> tuple[Memory, ...]:
    """Give peaks and counts of each device, the largest peak first."""
    columns = view.trace.memory
    rows = np.flatnonzero(view.inside(columns.time))
    groups = group(columns.device_type[rows], columns.device[rows])
    size = columns.bytes[rows]
    found = [
        Memory(
            device=_name(int(columns.device_type[first]), int(columns.device[first])),
            peak_allocated=_peak(columns.allocated[rows[groups.of == at]]),
            peak_reserved=_peak(columns.reserved[rows[groups.of == at]]),
            allocations=int(np.sum(size[groups.of == at] > 0)),
            frees=int(np.sum(size[groups.of == at] < 0)),
            allocated_bytes=int(np.maximum(size[groups.of == at], 0).sum()),
        )
        for at, first in enumerate(rows[groups.first].tolist())
    ]
    return tuple(sorted(found, key=lambda row: (-(row.peak_allocated or 0), row.device)))


def _name(kind: int, index: int) -> str:
    name = _TYPES.get(kind, f"device type {kind}")
    return name if index < 0 or name == "cpu" else f"{name}:{index}"


def _peak(values: Int64) -> int | None:
    known = values[values >= 0]
    return int(known.max()) if len(known) else None
