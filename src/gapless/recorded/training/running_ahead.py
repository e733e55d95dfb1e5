"""Steps in which a host only runs ahead of its device: they do not measure the training.

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
from gapless.recorded.training.edges import Bool, Edges

_MIN_DEVICE_STEPS = 3  # measured steps of the device, or nothing is reported
_MAX_AHEAD_SHARE = 0.5  # of the device's step: one of a host that runs ahead is that short
_MAX_SHORT_SHARE = 0.9  # times as short as the others, until the queue is full
_MIN_BEHIND_STEPS = 0.5  # steps: a device less behind at the end keeps up with its host


def find_ahead_steps(process: Process, edges: Edges, free: Bool) -> Bool:
    """Return which of the un-profiled steps are only the host running ahead."""
    ahead = np.zeros(len(free), bool)
    device_ns = np.where(free, _device_step_ns(process, edges), 0)
    measured_ns = device_ns[device_ns > 0]
    if len(measured_ns) < _MIN_DEVICE_STEPS:
        return ahead
    usual_ns, is_single = float(np.median(measured_ns)), edges.is_single & (edges.step_counts == 1)
    lengths_ns = np.diff(edges.ends)
    growth_ns = _fill_nearest(device_ns) * edges.step_counts - lengths_ns
    bounds = np.flatnonzero(np.diff(np.concatenate(([0], free.astype(np.int8), [0]))))
    for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
        behind_ns = float(growth_ns[start:stop].sum())
        if behind_ns < _MIN_BEHIND_STEPS * usual_ns:
            continue
        is_short = is_single[start:stop] & (lengths_ns[start:stop] < _MAX_SHORT_SHARE * usual_ns)
        lead_stop = start + _count_leading(is_short)
        if not (lengths_ns[start:lead_stop] < _MAX_AHEAD_SHARE * usual_ns).any():
            continue  # the device's step was short then, too
        gained_ns = np.cumsum(growth_ns[start:lead_stop])
        ahead[start:lead_stop] = (growth_ns[start:lead_stop] > 0) & (
            gained_ns <= behind_ns + _MIN_BEHIND_STEPS * usual_ns
        )
    return ahead


def _count_leading(flags: Bool) -> int:
    """Count the rows before the first that is false."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _fill_nearest(device_ns: Int64) -> Int64:
    """Fill each unmeasured step with what the nearest measured one took."""
    measured = np.flatnonzero(device_ns > 0)
    steps = np.arange(len(device_ns))
    following = np.minimum(np.searchsorted(measured, steps), len(measured) - 1)
    preceding = np.maximum(following - 1, 0)
    nearest = np.where(
        steps - measured[preceding] <= measured[following] - steps, preceding, following
    )
    return device_ns[measured[np.where(steps >= measured[-1], len(measured) - 1, nearest)]]


def _device_step_ns(process: Process, edges: Edges) -> Int64:
    """Return for each step what it took on the device, in ns; 0 where that was not measured."""
    marks, device_ns = process.marks, np.zeros(max(len(edges.ends) - 1, 0), np.int64)
    rows = np.flatnonzero((marks.kind == wire.DEVICE_STEP) & (marks.value > 0))
    step = np.searchsorted(edges.ends, marks.end[rows]) - 1
    is_inside = (step >= 0) & (step < len(device_ns))
    rows, step = rows[is_inside], step[is_inside]
    is_whole_step = (edges.ends[step + 1] == marks.end[rows]) & (
        edges.ends[step] == marks.start[rows]
    )
    device_ns[step[is_whole_step]] = marks.value[rows[is_whole_step]]
    return device_ns
