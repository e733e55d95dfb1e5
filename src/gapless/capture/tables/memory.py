"""Memory: what allocator events say of each device within the counted steps."""

from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.capture.columns import group_rows
from gapless.capture.tables.kind import TableKind
from gapless.capture.view import CaptureView
from gapless.model.tables import Memory
from gapless.model.trace import Int64

_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 8: "xla", 12: "xpu", 13: "mps", 17: "mtia"}  # DeviceType.h


def memory_table(view: CaptureView) -> tuple[Memory, ...]:
    """Return peaks and counts of each device, the largest peak first."""
    columns = view.trace.memory
    rows = np.flatnonzero(view.is_inside(columns.time))
    groups = group_rows(columns.device_type[rows], columns.device[rows])
    size = columns.bytes[rows]
    devices = [
        Memory(
            device=_device_name(int(columns.device_type[row]), int(columns.device[row])),
            peak_allocated=_peak(columns.allocated[rows[groups.group_ids == index]]),
            peak_reserved=_peak(columns.reserved[rows[groups.group_ids == index]]),
            allocations=int(np.sum(size[groups.group_ids == index] > 0)),
            frees=int(np.sum(size[groups.group_ids == index] < 0)),
            allocated_bytes=int(np.maximum(size[groups.group_ids == index], 0).sum()),
        )
        for index, row in enumerate(rows[groups.first_rows].tolist())
    ]
    return tuple(sorted(devices, key=lambda row: (-(row.peak_allocated or 0), row.device)))


def _device_name(kind: int, index: int) -> str:
    name = _TYPES.get(kind, f"device type {kind}")
    return name if index < 0 or name == "cpu" else f"{name}:{index}"


def _peak(values: Int64) -> int | None:
    recorded = values[values >= 0]
    return int(recorded.max()) if len(recorded) else None


def _join_memory(memory: Memory, other_memory: Memory) -> Memory:
    """Take the higher of two ranks' peaks: they are different memories of the same number."""
    return replace(
        memory,
        peak_allocated=_max_known(memory.peak_allocated, other_memory.peak_allocated),
        peak_reserved=_max_known(memory.peak_reserved, other_memory.peak_reserved),
        allocations=memory.allocations + other_memory.allocations,
        frees=memory.frees + other_memory.frees,
        allocated_bytes=memory.allocated_bytes + other_memory.allocated_bytes,
    )


def _max_known(a: int | None, b: int | None) -> int | None:
    return max((value for value in (a, b) if value is not None), default=None)


TABLE: Final = TableKind(
    lambda view, _: memory_table(view),
    lambda row: row.device,
    _join_memory,
    lambda row: (-(row.peak_allocated or 0), row.device),
)
