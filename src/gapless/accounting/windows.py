"""Windows of a device: when it had drained what earlier steps launched (docs: the account, 3)."""

import numpy as np

from gapless.accounting.activities import Activities
from gapless.accounting.intervals import Lane
from gapless.model import category
from gapless.model.trace import Int64, Trace

_FEW, _MANY = 3, 6  # steps from which the first, and the last too, is left out as not regular
# Of a window's launch calls: with so many more without an activity than elsewhere it is not whole
# (of few calls: half of them).
_CUT, _SOME = 0.05, 8


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


def cut(boundaries: Int64, trace: Trace, acts: Activities) -> frozenset[int]:
    """Give the windows in which activities are missing that were launched.

    A profiler that stops while devices are behind loses what they still have in hand: the last
    windows of the capture seem short, or have no length at all. Calls of other windows that have
    no activity either (a capture of a graph) are no sign of it.
    """
    events, call = trace.events, acts.call[acts.call >= 0]
    alike = np.zeros(len(trace.names), bool)
    alike[events.name[call]] = True
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & alike[events.name])
    calls = calls[events.correlation[calls] > 0]
    window = np.searchsorted(boundaries, events.start[calls], side="right")
    lost = np.isin(calls, call, invert=True)
    count = len(boundaries) - 1
    every = np.bincount(window, minlength=count + 1)[1 : count + 1]
    without = np.bincount(window[lost], minlength=count + 1)[1 : count + 1]
    share = without / np.maximum(every, 1)
    regular = [at for at in range(count) if at not in left_out(count)]
    least = share[regular].min() if regular else 0.0
    many = np.maximum(_CUT * every, np.minimum(_SOME, every / 2))
    return frozenset(np.flatnonzero(without - least * every > many).tolist())


def left_out(count: int) -> frozenset[int]:
    """Give the windows that are no regular step: the first of three, the last too from six on."""
    if count < _FEW:
        return frozenset()
    return frozenset({0, count - 1}) if count >= _MANY else frozenset({0})
