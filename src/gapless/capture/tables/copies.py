"""Copies and memsets by direction and kind of host memory."""

import re
from typing import Final

import numpy as np
from msgspec.structs import replace

from gapless.capture.columns import group_rows
from gapless.capture.tables.kind import TableKind, add_fields
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.tables import Copy

_DIRECTIONS: Final = (
    ("HtoD", "HtoD|HostToDevice"),
    ("DtoH", "DtoH|DeviceToHost"),
    ("DtoD", "DtoD|DeviceToDevice"),
    ("PtoP", "PtoP"),
)
_MEMORY: Final = re.compile("Pageable|Pinned")


def copy_table(view: CaptureView) -> tuple[Copy, ...]:
    """Return the copies, those with the most device time first."""
    trace, events = view.trace, view.trace.events
    kinds = events.category[view.acts.event[view.active]]
    active = view.active[np.isin(kinds, (category.MEMCPY, category.MEMSET))]
    rows = view.acts.event[active]
    labels = [_copy_label(name) for name in trace.names]
    distinct = sorted(set(labels), key=str)
    codes = np.array([distinct.index(label) for label in labels], np.int64)
    groups = group_rows(codes[events.name[rows]], events.category[rows])
    size = trace.gpu.bytes[events.detail[rows]]
    columns = (view.lengths[active], size, (size < 0).astype(np.int64))
    time_ns, moved_bytes, unknown = (groups.total(column) for column in columns)
    calls = groups.count()
    copies: list[Copy] = []
    for index, row in enumerate(groups.first_rows.tolist()):
        memset = events.category[rows[row]] == category.MEMSET
        direction, memory = ("memset", None) if memset else labels[events.name[rows[row]]]
        total = int(moved_bytes[index]) if not unknown[index] else None
        ns = int(time_ns[index])
        rate = None if total is None else total / ns * 1e9
        copies.append(Copy(direction, memory, int(calls[index]), total, ns, rate))
    return tuple(sorted(copies, key=lambda row: (-row.device_ns, row.direction)))


def _copy_label(name: str) -> tuple[str, str | None]:
    memory = _MEMORY.search(name)
    kind = memory.group().lower() if memory else None
    for direction, pattern in _DIRECTIONS:
        if re.search(pattern, name):
            return direction, kind
    return "other", kind


def _add_copies(copy: Copy, addend: Copy) -> Copy:
    sums = add_fields(copy, addend, "calls", "bytes", "device_ns")
    rate = None if sums.bytes is None else sums.bytes / sums.device_ns * 1e9
    return replace(sums, bytes_per_s=rate)


TABLE: Final = TableKind(
    lambda view, _: copy_table(view),
    lambda row: (row.direction, row.memory),
    _add_copies,
    lambda row: (-row.device_ns, row.direction),
)
