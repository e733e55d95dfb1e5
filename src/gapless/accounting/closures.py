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


def closures(trace: Trace) -> dict[int, Lane]:
    """Give for each thread the time in which its optimizers' steps ran a closure.

    A step in which a backward pass runs has one: torch's optimizers call it before all else, so it
    lasts from the step's begin to the end of the last node of the graph. ``LBFGS`` calls it again:
    each further one begins where the gradients are cleared.
    """
    events = trace.events
    steps, nodes = _named(trace, _STEP), _named(trace, _NODE)
    if not len(steps) or not len(nodes):
        return {}
    order = np.argsort(events.start[nodes], kind="stable")
    start, end = events.start[nodes][order], events.end[nodes][order]
    cleared = _named(trace, _ZERO_GRAD)
    found: dict[int, list[tuple[int, int]]] = {}
    for step in steps.tolist():
        track, lo, hi = int(events.track[step]), int(events.start[step]), int(events.end[step])
        inside = slice(*np.searchsorted(start, (lo, hi)).tolist())
        if inside.start == inside.stop:
            continue
        mine = cleared[(events.track[cleared] == track)]
        again = events.start[mine]
        begins = np.sort(again[(again > lo) & (again < hi)])
        found.setdefault(track, []).extend(_each(start[inside], end[inside], begins, lo))
    return {track: _lane(spans) for track, spans in found.items()}


def _each(start: Int64, end: Int64, cleared: Int64, lo: int) -> list[tuple[int, int]]:
    """Give the closures of one step: from where each began to the last node before the next."""
    which = np.searchsorted(cleared, start, side="right")  # how often gradients were cleared before
    first = np.flatnonzero(np.diff(which, prepend=-1))
    last = np.maximum.reduceat(end, first).tolist()
    begins = [lo, *(int(cleared[one - 1]) for one in which[first[1:]])]
    return list(zip(begins, last, strict=True))


def _lane(spans: list[tuple[int, int]]) -> Lane:
    bounds = np.array(spans, np.int64)
    return union(bounds[:, 0], bounds[:, 1]) if len(spans) else NO_LANE


def _named(trace: Trace, prefix: str) -> Int64:
    """Give host events whose name begins so, and which take time."""
    events = trace.events
    names = np.array([name.startswith(prefix) for name in trace.names], bool)
    if not names.any():
        return np.empty(0, np.int64)
    host = np.isin(events.category, (category.CPU_OP, category.USER_ANNOTATION))
    return np.flatnonzero(names[events.name] & host & (events.end > events.start))
