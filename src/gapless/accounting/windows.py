"""Windows of a device: when it had drained what earlier steps launched (docs: the account, 3)."""

import numpy as np

from gapless.accounting.activities import Activities
from gapless.accounting.intervals import Lane
from gapless.model.trace import Int64

_FEW, _MANY = 3, 6  # steps from which the first, and the last too, is left out as not regular


def windows(boundaries: Int64, acts: Activities) -> Int64:
    """Give G_k = max(G_{k−1}, S_k, the latest end of what was launched before S_k)."""
    order = np.argsort(acts.call_start, kind="stable")
    launched, reach = acts.call_start[order], np.maximum.accumulate(acts.end[order])
    before = np.searchsorted(launched, boundaries)
    drained = np.where(before > 0, reach[before - 1], boundaries) if len(reach) else boundaries
    return np.maximum.accumulate(np.maximum(boundaries, drained))


def as_lane(bounds: Int64) -> Lane:
    """See consecutive boundaries as a lane owned by positions; empty windows are left out."""
    rows = np.flatnonzero(bounds[1:] > bounds[:-1])
    return Lane(bounds[:-1][rows], bounds[1:][rows], rows)


def left_out(count: int) -> frozenset[int]:
    """Give the windows that are no regular step: the first of three, the last too from six on."""
    if count < _FEW:
        return frozenset()
    return frozenset({0, count - 1}) if count >= _MANY else frozenset({0})
