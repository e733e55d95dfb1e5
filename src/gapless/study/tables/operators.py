"""Operators: calls and times as torch's ``key_averages`` defines them.

Frames are operators, ranges and the calls of the runtime, nested by thread. Self host time is a
frame's length less that of its direct children. An activity belongs to the innermost operator or
range that was open when it was launched. A frame whose parent bears its name, and has no other
child, is not counted twice (``_remove_dup_nodes`` of ``torch/autograd/profiler_util.py``).
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final, cast

import numpy as np

from gapless.accounting.ahead import ahead
from gapless.accounting.nesting import batches, innermost, parents
from gapless.model import category
from gapless.model.tables import Operator
from gapless.model.trace import Int64, Shape, Trace
from gapless.study.columns import group
from gapless.study.view import View

_CALLS, _HOST_SELF, _HOST, _DEVICE_SELF, _DEVICE = range(5)  # of the sums
_HIDDEN: Final = re.compile(r"^(ProfilerStep#\d+|profiler::_record_function_\w+|\[memory\])$")


def operator_table(view: View, *, by_shape: bool) -> tuple[Operator, ...]:
    """Give the operators, those with the longest self host time first."""
    sums: dict[tuple[int, int], Int64] = {}
    for part in ahead(partial(_sums, view, by_shape=by_shape), _families(view.trace)):
        for key, one in part.items():
            sums[key] = sums[key] + one if key in sums else one
    trace, has_devices = view.trace, len(view.acts) > 0
    found = [
        Operator(
            name=trace.names[name],
            shapes=describe(trace.shapes[shape]) if shape >= 0 else None,
            calls=int(one[_CALLS]),
            host_self_ns=int(one[_HOST_SELF]),
            host_total_ns=int(one[_HOST]),
            device_self_ns=int(one[_DEVICE_SELF]) if has_devices else None,
            device_total_ns=int(one[_DEVICE]) if has_devices else None,
        )
        for (name, shape), one in sums.items()
    ]
    return tuple(sorted(found, key=lambda row: (-row.host_self_ns, row.name, row.shapes or "")))


def _families(trace: Trace) -> Iterator[Int64]:
    """Give the frames thread by thread, in batches that share no parent."""
    shown = np.array([_HIDDEN.match(name) is None for name in trace.names], bool)
    kinds = (category.CPU_OP, category.USER_ANNOTATION, *category.CALLS)
    events = trace.events
    rows = np.flatnonzero(np.isin(events.category, kinds) & shown[events.name])
    points = rows[events.end[rows] <= events.start[rows]]
    if len(points):
        yield points
    track = events.track[rows]
    for one in np.unique(track).tolist():
        mine = rows[track == one]
        for batch in batches(events.start[mine], events.end[mine]):
            yield mine[batch]


def _sums(view: View, frames: Int64, *, by_shape: bool) -> dict[tuple[int, int], Int64]:
    """Give what a batch of frames did, by name and shape."""
    events = view.trace.events
    parent = parents(events.start[frames], events.end[frames])
    frames, parent = _without_doubles(view.trace, frames, parent)
    counted = np.flatnonzero(view.inside(events.start[frames]))
    rows = frames[counted]
    if not len(rows):
        return {}
    names, shapes = _labels(view.trace, rows, by_shape=by_shape)
    groups = group(names, shapes)
    measures = np.stack(
        [
            np.ones(len(rows), np.int64),
            _self_ns(view.trace, frames, parent)[counted],
            np.maximum(events.end[rows] - events.start[rows], 0),
            *(column[counted] for column in _device(view, frames)),
        ]
    )
    totals = np.stack([groups.total(measure) for measure in measures], axis=1)
    first = groups.first
    keys = zip(names[first].tolist(), shapes[first].tolist(), strict=True)
    return dict(zip(keys, totals, strict=True))


def _without_doubles(trace: Trace, frames: Int64, parent: Int64) -> tuple[Int64, Int64]:
    has = parent >= 0
    children = np.bincount(parent[has], minlength=len(frames))
    name = trace.events.name[frames]
    double = has & (name[parent] == name) & (children[parent] == 1)
    if not double.any():
        return frames, parent
    while (again := has & double[parent]).any():  # as deep as the longest chain
        parent = np.where(again, parent[parent], parent)
        has = parent >= 0
    place = np.cumsum(~double) - 1
    return frames[~double], np.where(has, place[parent], -1)[~double]


def _self_ns(trace: Trace, frames: Int64, parent: Int64) -> Int64:
    events = trace.events
    length = np.maximum(events.end[frames] - events.start[frames], 0)
    has = parent >= 0
    inner = np.zeros(len(frames), np.int64)
    np.add.at(inner, parent[has], length[has])
    return length - inner


def _labels(trace: Trace, rows: Int64, *, by_shape: bool) -> tuple[Int64, Int64]:
    events = trace.events
    shapes = np.full(len(rows), -1, np.int64)
    if by_shape:
        operators = events.category[rows] == category.CPU_OP
        shapes[operators] = _distinct_dims(trace)[events.detail[rows[operators]]]
    return events.name[rows].astype(np.int64), shapes


def _distinct_dims(trace: Trace) -> Int64:
    """Give for each shape the first one with equal dims; the last entry is for −1."""
    seen: dict[tuple[object, ...], int] = {}
    found = [seen.setdefault(shape.dims, at) for at, shape in enumerate(trace.shapes)]
    return np.array([*found, -1], np.int64)


def describe(shape: Shape) -> str:
    """Write the sizes of an operator's tensors: "[64, 3, 224, 224] [64, 3, 7, 7]"."""
    return " ".join(_sizes(dims) for dims in shape.dims if dims)


def _sizes(dims: object) -> str:
    if isinstance(dims, tuple):
        return f"[{', '.join(_sizes(one) for one in cast('tuple[object, ...]', dims))}]"
    return str(dims)


def _device(view: View, frames: Int64) -> tuple[Int64, Int64]:
    """Give the self and total device time of each frame of a batch; runtime calls have none."""
    own = np.zeros(len(frames), np.int64)
    events = view.trace.events
    able = np.flatnonzero(~np.isin(events.category[frames], category.CALLS))
    if not len(able) or not len(view.acts):
        return own, own
    rows = frames[able]
    launched = view.launched(int(events.track[rows[0]]))
    lo, hi = np.searchsorted(launched.at, [events.start[rows].min(), events.end[rows].max()])
    here = slice(int(lo), int(hi))
    inner = innermost(events.start[rows], events.end[rows], launched.at[here])
    length = np.diff(launched.before)[here]
    np.add.at(own, able[inner[inner >= 0]], length[inner >= 0])
    total = np.zeros(len(frames), np.int64)
    total[able] = launched.within(events.start[rows], events.end[rows])
    return own, total
