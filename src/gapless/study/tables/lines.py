"""Lines of source, in a trace with stacks: what they cost, what idle time they caused.

A function is named by the line where it begins ("train.py(41): main"), as the profiler's stacks
do. Its self time includes the built-ins and operators that it calls, but no function that has a
line of its own. Recursion is not counted twice: totals are those of the outermost call. Of
functions that run on through several steps, their time within the counted ones is taken.
"""

from typing import Final

import numpy as np

from gapless.accounting.nesting import parents
from gapless.model.leaf import LEAVES
from gapless.model.tables import Line
from gapless.model.trace import Int64
from gapless.study.columns import group
from gapless.study.source import Stacks, is_recorder, stacks
from gapless.study.view import View

_IDLE: Final = [at for at, leaf in enumerate(LEAVES) if leaf.startswith("idle.")]


def line_table(view: View) -> tuple[Line, ...]:
    """Give the functions, by the idle time they caused, then by the time of their own."""
    trace, events = view.trace, view.trace.events
    known = stacks(trace)
    rows = known.frames
    if not len(rows):
        return ()
    keep = view.inside(events.start[rows])
    length = view.measure(events.end[rows]) - view.measure(events.start[rows])
    own, outermost = _self_and_outermost(view, rows, length)
    device = view.device_ns(rows)
    idle = _idle(view, known)
    groups = group(events.name[rows])
    counts = groups.total(keep.astype(np.int64))
    selves = groups.total(own)
    totals = groups.total(np.where(outermost, length, 0))
    below = None if device is None else groups.total(np.where(outermost, device, 0))
    blamed = groups.total(idle)
    found = [
        Line(
            *known.places[int(events.name[rows[first]])],
            calls=int(counts[at]),
            host_self_ns=int(selves[at]),
            host_total_ns=int(totals[at]),
            device_total_ns=None if below is None else int(below[at]),
            idle_ns=int(blamed[at]),
        )
        for at, first in enumerate(groups.first)
        if (totals[at] or blamed[at]) and not is_recorder(_file(view, known, int(rows[first])))
    ]
    return tuple(sorted(found, key=lambda row: (-row.idle_ns, -row.host_self_ns, row.file)))


def _file(view: View, known: Stacks, row: int) -> str:
    return known.places[int(view.trace.events.name[row])][0]


def _self_and_outermost(view: View, rows: Int64, length: Int64) -> tuple[Int64, Int64]:
    """Give each frame's time outside its children, and whether none around has its name."""
    events = view.trace.events
    own, outermost = length.copy(), np.ones(len(rows), bool)
    track, name = events.track[rows], events.name[rows]
    for one in np.unique(track).tolist():
        mine = np.flatnonzero(track == one)
        around = parents(events.start[rows[mine]], events.end[rows[mine]])
        has = around >= 0
        np.subtract.at(own, mine[around[has]], length[mine[has]])
        outermost[mine] = ~_within_its_like(name[mine].astype(np.int64), around)
    return own, outermost


def _within_its_like(name: Int64, parent: Int64) -> Int64:
    """Tell which frames have an ancestor of their own name: one step up the stack at a time."""
    found = np.zeros(len(name), bool)
    rows, above = np.arange(len(name)), parent
    while len(rows):
        alive = above >= 0
        rows, above = rows[alive], above[alive]
        same = name[above] == name[rows]
        found[rows[same]] = True
        rows, above = rows[~same], parent[above[~same]]
    return found


def _idle(view: View, known: Stacks) -> Int64:
    """Give for each frame the idle device time that it, or what it called, is to blame for."""
    ledger = view.ledger
    pieces = view.charged_to(_IDLE)
    pieces = pieces[ledger.culprit[pieces] >= 0]
    frame = known.around(view.trace, ledger.culprit[pieces].astype(np.int64))
    found = np.zeros(len(known.frames), np.int64)
    has = frame >= 0
    np.add.at(found, frame[has], (ledger.end[pieces] - ledger.start[pieces])[has])
    return found
