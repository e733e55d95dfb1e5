"""Closures: forward and backward passes that an optimizer's own step calls.

``LBFGS`` evaluates its loss several times in a step, and trainers hand ``step`` the whole forward
and backward pass. What runs in there is the model's work, not the optimizer's.
"""

import numpy as np

from gapless.accounting.intervals import NO_LANE, Lane, union
from gapless.model import category
from gapless.model.trace import Int64, Trace

_STEP = "Optimizer.step#"
_ZERO_GRAD = "Optimizer.zero_grad#"
_NODE = "autograd::engine::evaluate_function"


def closure_lanes(trace: Trace) -> dict[int, Lane]:
    """Return for each thread the time in which its optimizers' steps ran a closure.

    A step in which a backward pass runs has one: torch's optimizers call it before all else, so it
    lasts from the step's begin to the end of the last node of the graph. ``LBFGS`` calls it again:
    each further one begins where the gradients are cleared.
    """
    events = trace.events
    steps, nodes = _find_events(trace, _STEP), _find_events(trace, _NODE)
    if not len(steps) or not len(nodes):
        return {}
    order = np.argsort(events.start[nodes], kind="stable")
    start, end = events.start[nodes][order], events.end[nodes][order]
    zero_grads = _find_events(trace, _ZERO_GRAD)
    spans_by_track: dict[int, list[tuple[int, int]]] = {}
    for step in steps.tolist():
        track, lo, hi = int(events.track[step]), int(events.start[step]), int(events.end[step])
        node_slice = slice(*np.searchsorted(start, (lo, hi)).tolist())
        if node_slice.start == node_slice.stop:
            continue
        own_zero_grads = zero_grads[(events.track[zero_grads] == track)]
        clear_starts = events.start[own_zero_grads]
        begins = np.sort(clear_starts[(clear_starts > lo) & (clear_starts < hi)])
        spans_by_track.setdefault(track, []).extend(
            _step_closures(start[node_slice], end[node_slice], begins, lo)
        )
    return {track: _union_lane(spans) for track, spans in spans_by_track.items()}


def _step_closures(start: Int64, end: Int64, cleared_ns: Int64, lo: int) -> list[tuple[int, int]]:
    """Return the closures of one step: from where each began to the last node before the next."""
    # how often gradients were cleared before
    n_cleared = np.searchsorted(cleared_ns, start, side="right")
    first_rows = np.flatnonzero(np.diff(n_cleared, prepend=-1))
    ends = np.maximum.reduceat(end, first_rows).tolist()
    begins = [lo, *(int(cleared_ns[count - 1]) for count in n_cleared[first_rows[1:]])]
    return list(zip(begins, ends, strict=True))


def _union_lane(spans: list[tuple[int, int]]) -> Lane:
    bounds = np.array(spans, np.int64)
    return union(bounds[:, 0], bounds[:, 1]) if len(spans) else NO_LANE


def _find_events(trace: Trace, prefix: str) -> Int64:
    """Return host events whose name begins so, and which take time."""
    events = trace.events
    names = np.array([name.startswith(prefix) for name in trace.names], bool)
    if not names.any():
        return np.empty(0, np.int64)
    host = np.isin(events.category, (category.CPU_OP, category.USER_ANNOTATION))
    return np.flatnonzero(names[events.name] & host & (events.end > events.start))
