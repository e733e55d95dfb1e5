"""Copies and memsets by direction and kind of host memory."""

import re
from typing import Final

import numpy as np

from gapless.model import category
from gapless.model.tables import Copy
from gapless.study.columns import group
from gapless.study.view import View

_DIRECTIONS: Final = (
    ("HtoD", "HtoD|HostToDevice"),
    ("DtoH", "DtoH|DeviceToHost"),
    ("DtoD", "DtoD|DeviceToDevice"),
    ("PtoP", "PtoP"),
)
_MEMORY: Final = re.compile("Pageable|Pinned")


def copy_table(view: View) -> tuple[Copy, ...]:
    """Give the copies, those with the most device time first."""
    trace, events = view.trace, view.trace.events
    kinds = events.category[view.acts.event[view.active]]
    active = view.active[np.isin(kinds, (category.MEMCPY, category.MEMSET))]
    rows = view.acts.event[active]
    labels = [_label(name) for name in trace.names]
    distinct = sorted(set(labels), key=str)
    number = np.array([distinct.index(label) for label in labels], np.int64)
    groups = group(number[events.name[rows]], events.category[rows])
    size = trace.gpu.bytes[events.detail[rows]]
    columns = (view.lengths[active], size, (size < 0).astype(np.int64))
    time, moved, unknown = (groups.total(column) for column in columns)
    calls = groups.count()
    found: list[Copy] = []
    for at, first in enumerate(groups.first.tolist()):
        memset = events.category[rows[first]] == category.MEMSET
        direction, memory = ("memset", None) if memset else labels[events.name[rows[first]]]
        total = int(moved[at]) if not unknown[at] else None
        ns = int(time[at])
        rate = None if total is None else total / ns * 1e9
        found.append(Copy(direction, memory, int(calls[at]), total, ns, rate))
    return tuple(sorted(found, key=lambda row: (-row.device_ns, row.direction)))


def _label(name: str) -> tuple[str, str | None]:
    memory = _MEMORY.search(name)
    kind = memory.group().lower() if memory else None
    for direction, pattern in _DIRECTIONS:
        if re.search(pattern, name):
            return direction, kind
    return "other", kind
