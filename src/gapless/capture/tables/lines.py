"""Lines of source, in a trace with stacks: what they cost, what idle time they caused.

A function is named by the line where it begins ("train.py(41): main"), as the profiler's stacks
do. Its self time includes the built-ins and operators that it calls, but no function that has a
line of its own. Recursion is not counted twice: totals are those of the outermost call. Of
functions that run on through several steps, their time within the counted ones is taken.
"""

from typing import Final

import numpy as np

from gapless.accounting.host.nesting import find_parents
from gapless.capture.columns import group_rows
from gapless.capture.source_lines import Stacks, is_recorder, stacks
from gapless.capture.tables.kind import TableKind, add_fields
from gapless.capture.view import CaptureView
from gapless.model.leaf import LEAVES
from gapless.model.tables import Line
from gapless.model.trace import Int64

_IDLE: Final = [code for code, leaf in enumerate(LEAVES) if leaf.startswith("idle.")]


def line_table(view: CaptureView) -> tuple[Line, ...]:
    """Return the functions, by the idle time they caused, then by the time of their own."""
    trace, events = view.trace, view.trace.events
    trace_stacks = stacks(trace)
    rows = trace_stacks.frames
    if not len(rows):
        return ()
    is_inside = view.is_inside(events.start[rows])
    length = view.counted_before(events.end[rows]) - view.counted_before(events.start[rows])
    own_ns, outermost = _self_and_outermost(view, rows, length)
    device = view.device_ns(rows)
    idle = _frame_idle_ns(view, trace_stacks)
    groups = group_rows(events.name[rows])
    counts = groups.total(is_inside.astype(np.int64))
    self_totals = groups.total(own_ns)
    totals = groups.total(np.where(outermost, length, 0))
    device_totals = None if device is None else groups.total(np.where(outermost, device, 0))
    idle_totals = groups.total(idle)
    lines = [
        Line(
            *trace_stacks.locations[int(events.name[rows[row]])],
            calls=int(counts[index]),
            host_self_ns=int(self_totals[index]),
            host_total_ns=int(totals[index]),
            device_total_ns=None if device_totals is None else int(device_totals[index]),
            idle_ns=int(idle_totals[index]),
        )
        for index, row in enumerate(groups.first_rows)
        if (totals[index] or idle_totals[index])
        and not is_recorder(_frame_file(view, trace_stacks, int(rows[row])))
    ]
    return tuple(sorted(lines, key=lambda row: (-row.idle_ns, -row.host_self_ns, row.file)))


def _frame_file(view: CaptureView, trace_stacks: Stacks, row: int) -> str:
    return trace_stacks.locations[int(view.trace.events.name[row])][0]


def _self_and_outermost(view: CaptureView, rows: Int64, length: Int64) -> tuple[Int64, Int64]:
    """Return each frame's time outside its children, and whether none around has its name."""
    events = view.trace.events
    own_ns, outermost = length.copy(), np.ones(len(rows), bool)
    track, name = events.track[rows], events.name[rows]
    for track_id in np.unique(track).tolist():
        track_rows = np.flatnonzero(track == track_id)
        parent = find_parents(events.start[rows[track_rows]], events.end[rows[track_rows]])
        has_parent = parent >= 0
        np.subtract.at(own_ns, track_rows[parent[has_parent]], length[track_rows[has_parent]])
        outermost[track_rows] = ~_is_recursive(name[track_rows].astype(np.int64), parent)
    return own_ns, outermost


def _is_recursive(name: Int64, parent: Int64) -> Int64:
    """Flag the frames with an ancestor of their own name: one step up the stack at a time."""
    is_recursive = np.zeros(len(name), bool)
    rows, ancestor = np.arange(len(name)), parent
    while len(rows):
        has_ancestor = ancestor >= 0
        rows, ancestor = rows[has_ancestor], ancestor[has_ancestor]
        is_same = name[ancestor] == name[rows]
        is_recursive[rows[is_same]] = True
        rows, ancestor = rows[~is_same], parent[ancestor[~is_same]]
    return is_recursive


def _frame_idle_ns(view: CaptureView, trace_stacks: Stacks) -> Int64:
    """Return for each frame the idle device time that it, or what it called, is to blame for."""
    ledger = view.ledger
    pieces = view.charged_to(_IDLE)
    pieces = pieces[ledger.culprit[pieces] >= 0]
    frame = trace_stacks.frames_around(view.trace, ledger.culprit[pieces].astype(np.int64))
    idle_ns = np.zeros(len(trace_stacks.frames), np.int64)
    has_frame = frame >= 0
    np.add.at(idle_ns, frame[has_frame], (ledger.end[pieces] - ledger.start[pieces])[has_frame])
    return idle_ns


def _add_lines(line: Line, addend: Line) -> Line:
    times = ("host_self_ns", "host_total_ns", "device_total_ns", "idle_ns")
    return add_fields(line, addend, "calls", *times)


TABLE: Final = TableKind(
    lambda view, _: line_table(view),
    lambda row: (row.file, row.line, row.function),
    _add_lines,
    lambda row: (-row.idle_ns, -row.host_self_ns, row.file),
)
