"""Steps in which a host only runs ahead of its device: they are no measure of the training.

At the start, and after a pause, a host launches a thousand kernels ahead in a few short steps,
until the queue is full; from then on its steps take what the device takes. What it was ahead by is
worked off when the run is over, in no step. So short steps at the head of a stretch are left out as
far as the device is still behind at the stretch's end; where the host waits for it meanwhile (a
number is read every ten steps, say), long steps make up for the short ones, and all are kept.
"""

import numpy as np

from gapless import wire
from gapless.model.recording import Process
from gapless.model.trace import Int64
from gapless.study.recorded.edges import Bool, Edges

_MANY = 3  # steps of the device that were measured, or nothing is said
_AHEAD = 0.5  # of the device's step: one of a host that runs ahead is that short
_SHORT = 0.9  # likewise: the others are, until the queue is full
_BEHIND = 0.5  # steps: a device that is less behind at the end is with its host


def running_ahead(process: Process, edges: Edges, free: Bool) -> Bool:
    """Tell which of the steps that no profiler touched are only the host running ahead."""
    found = np.zeros(len(free), bool)
    device = np.where(free, _device_steps(process, edges), 0)
    known = device[device > 0]
    if len(known) < _MANY:
        return found
    usual, single = float(np.median(known)), edges.noted & (edges.many == 1)
    lengths = np.diff(edges.ends)
    growth = _nearest(device) * edges.many - lengths
    ends = np.flatnonzero(np.diff(np.concatenate(([0], free.astype(np.int8), [0]))))
    for first, after in zip(ends[::2], ends[1::2], strict=True):
        behind = float(growth[first:after].sum())
        if behind < _BEHIND * usual:
            continue
        short = single[first:after] & (lengths[first:after] < _SHORT * usual)
        lead = first + _leading(short)
        if not (lengths[first:lead] < _AHEAD * usual).any():
            continue  # the device's step was short then, too
        gained = np.cumsum(growth[first:lead])
        found[first:lead] = (growth[first:lead] > 0) & (gained <= behind + _BEHIND * usual)
    return found


def _leading(rows: Bool) -> int:
    """Count the rows before the first that is false."""
    return len(rows) if rows.all() else int(np.argmin(rows))


def _nearest(device: Int64) -> Int64:
    """Give each step that was not measured what the nearest measured one took."""
    known = np.flatnonzero(device > 0)
    every = np.arange(len(device))
    after = np.minimum(np.searchsorted(known, every), len(known) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.where(every - known[before] <= known[after] - every, before, after)
    return device[known[np.where(every >= known[-1], len(known) - 1, nearer)]]


def _device_steps(process: Process, edges: Edges) -> Int64:
    """Give for each step what it took on the device, in ns; 0 where that was not measured."""
    marks, found = process.marks, np.zeros(max(len(edges.ends) - 1, 0), np.int64)
    rows = np.flatnonzero((marks.kind == wire.DEVICE_STEP) & (marks.value > 0))
    at = np.searchsorted(edges.ends, marks.end[rows]) - 1
    inside = (at >= 0) & (at < len(found))
    rows, at = rows[inside], at[inside]
    whole = (edges.ends[at + 1] == marks.end[rows]) & (edges.ends[at] == marks.start[rows])
    found[at[whole]] = marks.value[rows[whole]]
    return found
