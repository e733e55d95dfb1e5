"""How much longer work takes during a concurrent copy: learned from a trace that has both."""

from typing import Final

import numpy as np

from gapless.accounting.device.activities import COMPUTE, H2D
from gapless.accounting.intervals import overlap, union
from gapless.model.estimate import Estimate
from gapless.model.trace import Int64
from gapless.replay.edits.select import ReplayView
from gapless.replay.graph.imputation import pair_keys
from gapless.replay.graph.nodes import Float

_MIN_PAIRS: Final = 5  # of one kernel with a copy and alone: with fewer nothing is learned
_MIN_COPY_SHARE, _MAX_ALONE_SHARE = 0.9, 0.01  # of its duration


def copy_interference(view: ReplayView, usual: Estimate) -> Estimate:
    """Return the factor by which a copy to the device slows down concurrent computing.

    Equal kernels (name, launch geometry) are compared that ran during a copy and alone; ``usual``
    where fewer than five pairs can be made.
    """
    acts, trace = view.joined_trace.activities, view.joined_trace.threads.trace
    factors = list[float]()
    for device in np.unique(acts.device[acts.kind == H2D]).tolist():
        copies = (acts.device == device) & (acts.kind == H2D)
        lane = union(acts.start[copies], acts.end[copies])
        rows = np.flatnonzero((acts.device == device) & (acts.kind == COMPUTE))
        length = acts.end[rows] - acts.start[rows]
        share = overlap(lane, acts.start[rows], acts.end[rows]) / np.maximum(length, 1)
        event = acts.event[rows]
        geometry = trace.gpu.geometry[trace.events.detail[event]].astype(np.int64)
        factors += _pair_ratios(
            pair_keys(trace.events.name[event].astype(np.int64), geometry), length, share
        )
    if len(factors) < _MIN_PAIRS:
        return usual
    low, mid, high = np.maximum(np.quantile(factors, (0.1, 0.5, 0.9)), 1.0).tolist()
    return Estimate(low, mid, high)


def _pair_ratios(key: Int64, length: Int64, share: Float) -> list[float]:
    """Return a ratio for each pair of equal kernels."""
    ratios = list[float]()
    for kernel in np.unique(key[share >= _MIN_COPY_SHARE]).tolist():
        with_copy = length[(key == kernel) & (share >= _MIN_COPY_SHARE)]
        alone = length[(key == kernel) & (share <= _MAX_ALONE_SHARE)]
        pairs = min(len(with_copy), len(alone))
        if pairs:
            ratios += [float(np.median(with_copy) / max(1.0, np.median(alone)))] * pairs
    return ratios
