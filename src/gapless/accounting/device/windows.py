"""Windows of a device: when it had drained what earlier steps launched (docs: the account, 3)."""

import numpy as np

from gapless.accounting.device.activities import Activities
from gapless.accounting.intervals import Lane
from gapless.model import category
from gapless.model.trace import Int64, Trace

# steps from which the first, and the last too, is left out as not regular
_MIN_STEPS, _MIN_STEPS_BOTH = (3, 6)
# Of a window's launch calls: with so many more without an activity than elsewhere it is not whole
# (of few calls: half of them).
_MAX_LOST_SHARE, _MIN_LOST_CALLS = 0.05, 8
# A library that tries its kernels launches so many times as many, and so many more, for no more
# operators (within this share) than other windows have.
_MIN_TRIED_RATIO, _MIN_TRIED, _MORE_OPERATORS_SHARE = 2, 64, 0.1


def device_windows(boundaries: Int64, acts: Activities) -> Int64:
    """Return G_k = max(G_{k−1}, S_k, the latest end of what was launched before S_k)."""
    order = np.argsort(acts.call_start, kind="stable")
    launches, reach = acts.call_start[order], np.maximum.accumulate(acts.end[order])
    before = np.searchsorted(launches, boundaries)
    drain = np.where(before > 0, reach[before - 1], boundaries) if len(reach) else boundaries
    return np.maximum.accumulate(np.maximum(boundaries, drain))


def as_lane(bounds: Int64) -> Lane:
    """Return consecutive boundaries as a lane owned by positions; empty windows are left out."""
    rows = np.flatnonzero(bounds[1:] > bounds[:-1])
    return Lane(bounds[:-1][rows], bounds[1:][rows], rows)


def find_incomplete(boundaries: Int64, trace: Trace, acts: Activities) -> frozenset[int]:
    """Return the windows in which activities are missing that were launched.

    A profiler that stops while devices are behind loses what they still have in hand: the last
    windows of the capture seem short, or have no length at all. Calls of other windows that have
    no activity either (a capture of a graph) are no sign of it.
    """
    events, call = trace.events, acts.call[acts.call >= 0]
    is_launch = np.zeros(len(trace.names), bool)
    is_launch[events.name[call]] = True
    calls = np.flatnonzero(np.isin(events.category, category.CALLS) & is_launch[events.name])
    calls = calls[events.correlation[calls] > 0]
    window = np.searchsorted(boundaries, events.start[calls], side="right")
    is_lost = np.isin(calls, call, invert=True)
    count = len(boundaries) - 1
    n_calls = np.bincount(window, minlength=count + 1)[1 : count + 1]
    n_lost = np.bincount(window[is_lost], minlength=count + 1)[1 : count + 1]
    share = n_lost / np.maximum(n_calls, 1)
    regular = [number for number in range(count) if number not in irregular_windows(count)]
    min_share = share[regular].min() if regular else 0.0
    threshold = np.maximum(_MAX_LOST_SHARE * n_calls, np.minimum(_MIN_LOST_CALLS, n_calls / 2))
    return frozenset(np.flatnonzero(n_lost - min_share * n_calls > threshold).tolist())


def find_searching(boundaries: Int64, trace: Trace, acts: Activities) -> frozenset[int]:
    """Return the windows in which libraries try out kernels for a shape that they first meet.

    With ``cudnn.benchmark`` the last, smaller batch of the first epoch takes a second where others
    take 20 ms, once. There the operators of other windows launch many times what they do there.
    Where half of the windows search, they are what steps are like.
    """
    events, count = trace.events, len(boundaries) - 1
    operators = events.start[events.category == category.CPU_OP]
    n_operators, n_launched = (
        np.bincount(np.searchsorted(boundaries, starts, side="right"), minlength=count + 2)[1:-1]
        for starts in (operators, acts.call_start)
    )
    usual = int(np.sort(n_launched)[(count - 1) // 2])
    has_no_more = n_operators <= (1 + _MORE_OPERATORS_SHARE) * np.median(n_operators)
    is_more = (n_launched >= _MIN_TRIED_RATIO * usual) & (n_launched >= usual + _MIN_TRIED)
    return frozenset(np.flatnonzero(has_no_more & is_more & (usual > 0)).tolist())


def irregular_windows(count: int) -> frozenset[int]:
    """Return the windows that are no regular step: the first of three, the last too from six on."""
    if count < _MIN_STEPS:
        return frozenset()
    return frozenset({0, count - 1}) if count >= _MIN_STEPS_BOTH else frozenset({0})
