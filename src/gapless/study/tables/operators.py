"""Operators: calls and times as torch's ``key_averages`` defines them.

Frames are operators, ranges and the calls of the runtime, nested by thread. Self host time is a
frame's length less that of its direct children. An activity belongs to the innermost operator or
range that was open when it was launched. A frame whose parent bears its name, and has no other
child, is not counted twice (``_remove_dup_nodes`` of ``torch/autograd/profiler_util.py``).
"""

import re
from typing import Final, cast

import numpy as np

from gapless.accounting.nesting import innermost, parents
from gapless.model import category
from gapless.model.tables import Operator
from gapless.model.trace import Int64, Shape, Trace
from gapless.study.columns import Groups, group
from gapless.study.view import View

_HIDDEN: Final = re.compile(r"^(ProfilerStep#\d+|profiler::_record_function_\w+|\[memory\])$")


def operator_table(view: View, *, by_shape: bool) -> tuple[Operator, ...]:
    """Give the operators, those with the longest self host time first."""
    trace, events = view.trace, view.trace.events
    frames = _frames(trace)
    parent = _parents(trace, frames)
    frames, parent = _without_doubles(trace, frames, parent)
    counted = np.flatnonzero(view.inside(events.start[frames]))
    own = _self_ns(trace, frames, parent)[counted]
    rows = frames[counted]
    names, shapes = _labels(trace, rows, by_shape=by_shape)
    groups = group(names, shapes)
    length = np.maximum(events.end[rows] - events.start[rows], 0)
    calls, selves, totals = groups.count(), groups.total(own), groups.total(length)
    device = _device(view, frames, counted, groups)
    texts = _dims(trace, shapes[groups.first]) if by_shape else [None] * len(groups)
    found = [
        Operator(
            name=trace.names[names[first]],
            shapes=texts[at],
            calls=int(calls[at]),
            host_self_ns=int(selves[at]),
            host_total_ns=int(totals[at]),
            device_self_ns=device[at][0],
            device_total_ns=device[at][1],
        )
        for at, first in enumerate(groups.first)
    ]
    return tuple(sorted(found, key=lambda row: (-row.host_self_ns, row.name, row.shapes or "")))


def _frames(trace: Trace) -> Int64:
    shown = np.array([_HIDDEN.match(name) is None for name in trace.names], bool)
    kinds = (category.CPU_OP, category.USER_ANNOTATION, *category.CALLS)
    rows = np.flatnonzero(np.isin(trace.events.category, kinds))
    return rows[shown[trace.events.name[rows]]]


def _parents(trace: Trace, frames: Int64) -> Int64:
    """Give for each frame the position of the one around it, −1."""
    events = trace.events
    found = np.full(len(frames), -1, np.int64)
    track = events.track[frames]
    for one in np.unique(track).tolist():
        mine = np.flatnonzero(track == one)
        around = parents(events.start[frames[mine]], events.end[frames[mine]])
        found[mine] = np.where(around >= 0, mine[around], -1)
    return found


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


def _dims(trace: Trace, shapes: Int64) -> list[str | None]:
    numbers: list[int] = shapes.tolist()
    return [describe(trace.shapes[at]) if at >= 0 else None for at in numbers]


def describe(shape: Shape) -> str:
    """Write the sizes of an operator's tensors: "[64, 3, 224, 224] [64, 3, 7, 7]"."""
    return " ".join(_sizes(dims) for dims in shape.dims if dims)


def _sizes(dims: object) -> str:
    if isinstance(dims, tuple):
        return f"[{', '.join(_sizes(one) for one in cast('tuple[object, ...]', dims))}]"
    return str(dims)


def _device(
    view: View, frames: Int64, counted: Int64, groups: Groups
) -> list[tuple[int, int] | tuple[None, None]]:
    """Give self and total device time of each group."""
    total = view.device_ns(frames[counted])
    if total is None:
        return [(None, None)] * len(groups)
    own = np.zeros(len(frames), np.int64)
    owner = _launchers(view, frames)
    np.add.at(own, owner[owner >= 0], view.lengths[owner >= 0])
    calls = np.isin(view.trace.events.category[frames[counted]], category.CALLS)
    totals = groups.total(np.where(calls, 0, total))
    selves = groups.total(own[counted])
    return [(int(one), int(all_)) for one, all_ in zip(selves, totals, strict=True)]


def _launchers(view: View, frames: Int64) -> Int64:
    """Give for each activity the place of the operator or range around its launch, −1."""
    events, acts = view.trace.events, view.acts
    found = np.full(len(acts), -1, np.int64)
    able = frames[~np.isin(events.category[frames], category.CALLS)]
    place = np.flatnonzero(~np.isin(events.category[frames], category.CALLS))
    track = events.track[able]
    for one in view.launches:
        here = np.flatnonzero(acts.thread == one)
        mine = np.flatnonzero(track == one)
        rows = able[mine]
        inner = innermost(events.start[rows], events.end[rows], acts.call_start[here])
        found[here] = np.where(inner >= 0, place[mine][inner], -1) if len(mine) else -1
    return found
