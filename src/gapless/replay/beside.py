"""How much longer work takes while a copy runs beside it: learned from a trace that has both."""

from typing import Final

import numpy as np

from gapless.accounting.activities import COMPUTE, H2D
from gapless.accounting.intervals import overlap, union
from gapless.model.interval import Interval
from gapless.model.trace import Int64
from gapless.replay.nodes import Float
from gapless.replay.select import View
from gapless.replay.typical import paired

_PAIRS: Final = 5  # of one kernel beside a copy and alone: with fewer nothing is learned
_BESIDE, _ALONE = 0.9, 0.01  # of its duration


def slowdown(view: View, usual: Interval) -> Interval:
    """Give the factor by which a copy to the device slows down what computes beside it.

    Equal kernels (name, launch geometry) are compared that ran beside one and alone; ``usual``
    where fewer than five pairs can be made.
    """
    acts, trace = view.joined.activities, view.joined.threads.trace
    factors = list[float]()
    for device in np.unique(acts.device[acts.kind == H2D]).tolist():
        copies = (acts.device == device) & (acts.kind == H2D)
        lane = union(acts.start[copies], acts.end[copies])
        rows = np.flatnonzero((acts.device == device) & (acts.kind == COMPUTE))
        length = acts.end[rows] - acts.start[rows]
        share = overlap(lane, acts.start[rows], acts.end[rows]) / np.maximum(length, 1)
        event = acts.event[rows]
        geometry = trace.gpu.geometry[trace.events.detail[event]].astype(np.int64)
        factors += _ratios(
            paired(trace.events.name[event].astype(np.int64), geometry), length, share
        )
    if len(factors) < _PAIRS:
        return usual
    low, mid, high = np.maximum(np.quantile(factors, (0.1, 0.5, 0.9)), 1.0).tolist()
    return Interval(low, mid, high)


def _ratios(key: Int64, length: Int64, share: Float) -> list[float]:
    """Give a ratio for each pair that equal kernels make."""
    found = list[float]()
    for one in np.unique(key[share >= _BESIDE]).tolist():
        beside = length[(key == one) & (share >= _BESIDE)]
        alone = length[(key == one) & (share <= _ALONE)]
        pairs = min(len(beside), len(alone))
        if pairs:
            found += [float(np.median(beside) / max(1.0, np.median(alone)))] * pairs
    return found
