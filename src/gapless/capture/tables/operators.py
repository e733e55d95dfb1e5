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

from gapless.accounting.ahead import map_ahead
from gapless.accounting.host.nesting import find_innermost, find_parents, split_batches
from gapless.capture.columns import group_rows
from gapless.capture.tables.kind import TableKind, add_fields
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.tables import Operator
from gapless.model.trace import Int64, Shape, Trace

_CALLS, _HOST_SELF, _HOST, _DEVICE_SELF, _DEVICE = range(5)  # of the sums
_HIDDEN: Final = re.compile(r"^(ProfilerStep#\d+|profiler::_record_function_\w+|\[memory\])$")


def operator_table(view: CaptureView, *, by_shape: bool) -> tuple[Operator, ...]:
    """Return the operators, those with the longest self host time first."""
    sums: dict[tuple[int, int], Int64] = {}
    for batch_sums in map_ahead(
        partial(_sum_batch, view, by_shape=by_shape), _frame_batches(view.trace)
    ):
        for key, totals in batch_sums.items():
            sums[key] = sums[key] + totals if key in sums else totals
    trace, has_devices = view.trace, len(view.acts) > 0
    operators = [
        Operator(
            name=trace.names[name],
            shapes=describe_shape(trace.shapes[shape]) if shape >= 0 else None,
            calls=int(totals[_CALLS]),
            host_self_ns=int(totals[_HOST_SELF]),
            host_total_ns=int(totals[_HOST]),
            device_self_ns=int(totals[_DEVICE_SELF]) if has_devices else None,
            device_total_ns=int(totals[_DEVICE]) if has_devices else None,
        )
        for (name, shape), totals in sums.items()
    ]
    return tuple(sorted(operators, key=lambda row: (-row.host_self_ns, row.name, row.shapes or "")))


def _frame_batches(trace: Trace) -> Iterator[Int64]:
    """Yield the frames thread by thread, in batches that share no parent."""
    is_shown = np.array([_HIDDEN.match(name) is None for name in trace.names], bool)
    kinds = (category.CPU_OP, category.USER_ANNOTATION, *category.CALLS)
    events = trace.events
    rows = np.flatnonzero(np.isin(events.category, kinds) & is_shown[events.name])
    points = rows[events.end[rows] <= events.start[rows]]
    if len(points):
        yield points
    track = events.track[rows]
    for track_id in np.unique(track).tolist():
        track_rows = rows[track == track_id]
        for batch in split_batches(events.start[track_rows], events.end[track_rows]):
            yield track_rows[batch]


def _sum_batch(view: CaptureView, frames: Int64, *, by_shape: bool) -> dict[tuple[int, int], Int64]:
    """Return what a batch of frames did, by name and shape."""
    events = view.trace.events
    parent = find_parents(events.start[frames], events.end[frames])
    frames, parent = _drop_doubles(view.trace, frames, parent)
    counted = np.flatnonzero(view.is_inside(events.start[frames]))
    rows = frames[counted]
    if not len(rows):
        return {}
    names, shapes = _labels(view.trace, rows, by_shape=by_shape)
    groups = group_rows(names, shapes)
    measures = np.stack(
        [
            np.ones(len(rows), np.int64),
            _self_ns(view.trace, frames, parent)[counted],
            np.maximum(events.end[rows] - events.start[rows], 0),
            *(column[counted] for column in _device_ns(view, frames)),
        ]
    )
    totals = np.stack([groups.total(measure) for measure in measures], axis=1)
    first_rows = groups.first_rows
    keys = zip(names[first_rows].tolist(), shapes[first_rows].tolist(), strict=True)
    return dict(zip(keys, totals, strict=True))


def _drop_doubles(trace: Trace, frames: Int64, parent: Int64) -> tuple[Int64, Int64]:
    has_parent = parent >= 0
    children = np.bincount(parent[has_parent], minlength=len(frames))
    name = trace.events.name[frames]
    is_double = has_parent & (name[parent] == name) & (children[parent] == 1)
    if not is_double.any():
        return frames, parent
    while (is_chained := has_parent & is_double[parent]).any():  # as deep as the longest chain
        parent = np.where(is_chained, parent[parent], parent)
        has_parent = parent >= 0
    positions = np.cumsum(~is_double) - 1
    return frames[~is_double], np.where(has_parent, positions[parent], -1)[~is_double]


def _self_ns(trace: Trace, frames: Int64, parent: Int64) -> Int64:
    events = trace.events
    length = np.maximum(events.end[frames] - events.start[frames], 0)
    has_parent = parent >= 0
    inner = np.zeros(len(frames), np.int64)
    np.add.at(inner, parent[has_parent], length[has_parent])
    return length - inner


def _labels(trace: Trace, rows: Int64, *, by_shape: bool) -> tuple[Int64, Int64]:
    events = trace.events
    shapes = np.full(len(rows), -1, np.int64)
    if by_shape:
        operators = events.category[rows] == category.CPU_OP
        shapes[operators] = _distinct_dims(trace)[events.detail[rows[operators]]]
    return events.name[rows].astype(np.int64), shapes


def _distinct_dims(trace: Trace) -> Int64:
    """Return for each shape the first one with equal dims; the last entry is for −1."""
    first_by_dims: dict[tuple[object, ...], int] = {}
    first_shapes = [
        first_by_dims.setdefault(shape.dims, index) for index, shape in enumerate(trace.shapes)
    ]
    return np.array([*first_shapes, -1], np.int64)


def describe_shape(shape: Shape) -> str:
    """Write the sizes of an operator's tensors: "[64, 3, 224, 224] [64, 3, 7, 7]"."""
    return " ".join(_format_sizes(dims) for dims in shape.dims if dims)


def _format_sizes(dims: object) -> str:
    if isinstance(dims, tuple):
        return f"[{', '.join(_format_sizes(size) for size in cast('tuple[object, ...]', dims))}]"
    return str(dims)


def _device_ns(view: CaptureView, frames: Int64) -> tuple[Int64, Int64]:
    """Return the self and total device time of each frame of a batch; runtime calls have none."""
    self_ns = np.zeros(len(frames), np.int64)
    events = view.trace.events
    able_rows = np.flatnonzero(~np.isin(events.category[frames], category.CALLS))
    if not len(able_rows) or not len(view.acts):
        return self_ns, self_ns
    rows = frames[able_rows]
    launched = view.launches_of(int(events.track[rows[0]]))
    lo, hi = np.searchsorted(launched.starts_ns, [events.start[rows].min(), events.end[rows].max()])
    span = slice(int(lo), int(hi))
    inner = find_innermost(events.start[rows], events.end[rows], launched.starts_ns[span])
    length = np.diff(launched.cumulated_ns)[span]
    np.add.at(self_ns, able_rows[inner[inner >= 0]], length[inner >= 0])
    total = np.zeros(len(frames), np.int64)
    total[able_rows] = launched.within(events.start[rows], events.end[rows])
    return self_ns, total


def _add_operators(operator: Operator, addend: Operator) -> Operator:
    times = ("host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns")
    return add_fields(operator, addend, "calls", *times)


TABLE: Final = TableKind(
    lambda view, by_shape: operator_table(view, by_shape=by_shape),
    lambda row: (row.name, row.shapes),
    _add_operators,
    lambda row: (-row.host_self_ns, row.name, row.shapes or ""),
)
