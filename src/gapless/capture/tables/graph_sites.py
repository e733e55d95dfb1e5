"""What operators that a function calls itself cost: again in the backward pass, or on a device.

Autograd numbers the nodes of its graph as a thread makes them. The profiler notes with each
operator the number that comes next as it begins, and with each node that a backward pass evaluates
its own: the last operator to begin with a number has made that node.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from gapless.accounting.host.threads import Bool
from gapless.accounting.intervals import union
from gapless.capture.source_lines import Stacks
from gapless.capture.view import CaptureView
from gapless.model import category
from gapless.model.trace import Int64

_NODE: Final = "autograd::engine::evaluate_function:"
_OPERATOR: Final = "aten::"


class OwnCalls(Struct, frozen=True):
    """Outermost operators that made a graph, or a row for each event that its nodes consist of."""

    rows: Int64  # of the operators, in both cases
    length: Int64  # of the operator; of the node, or 0 for what it calls


NO_CALLS: Final = OwnCalls(np.empty(0, np.int64), np.empty(0, np.int64))


def find_graph_calls(view: CaptureView, trace_stacks: Stacks) -> tuple[OwnCalls, OwnCalls]:
    """Return operators that made a graph, called by the user's functions themselves, and its nodes.

    What a function of a library calls (a module, a loss) is not among them.
    """
    events, rows = view.trace.events, view.counted_events(category.CPU_OP)
    is_node = _begins_with(view, _NODE)[events.name[rows]]
    nodes = rows[is_node & (events.correlation[rows] >= 0)]
    operators = rows[_begins_with(view, _OPERATOR)[events.name[rows]]]
    if not len(nodes) or not len(operators):
        return NO_CALLS, NO_CALLS
    operators = _outside(view, operators, rows[is_node])
    operators = operators[events.correlation[operators] >= 0]
    makers, roots = _find_makers(view, operators)
    maker_rows = np.searchsorted(events.correlation[makers], events.correlation[nodes])
    is_made = maker_rows < len(makers)
    is_made[is_made] = (
        events.correlation[makers[maker_rows[is_made]]] == events.correlation[nodes[is_made]]
    )
    nodes, callers = nodes[is_made], roots[maker_rows[is_made]]
    is_own = _is_called_by_user(view, trace_stacks, callers)
    nodes, callers = nodes[is_own], callers[is_own]
    outermost = np.unique(callers)
    starts = np.sort(events.start[rows])
    n_called = np.searchsorted(starts, events.end[nodes]) - np.searchsorted(
        starts, events.start[nodes], "right"
    )
    length = events.end[nodes] - events.start[nodes]
    return (
        OwnCalls(outermost, events.end[outermost] - events.start[outermost]),
        OwnCalls(
            np.append(callers, np.repeat(callers, n_called)),
            np.append(length, np.zeros(n_called.sum(), np.int64)),
        ),
    )


def find_device_calls(view: CaptureView, trace_stacks: Stacks) -> OwnCalls:
    """Return outermost operators without a graph, called by the user's functions themselves.

    ``length`` is the device's time of all that they launch.
    """
    events, rows = view.trace.events, view.counted_events(category.CPU_OP)
    is_node = _begins_with(view, _NODE)[events.name[rows]]
    operators = rows[_begins_with(view, _OPERATOR)[events.name[rows]]]
    if not len(view.acts) or not len(operators):
        return NO_CALLS
    operators = _outside(view, operators, rows[is_node])
    makers, roots = _find_makers(view, operators)
    is_made = np.isin(events.correlation[makers], events.correlation[rows[is_node]])
    is_made &= events.correlation[makers] >= 0
    alone = np.setdiff1d(_find_roots(view, operators)[1], roots[is_made])
    frame = trace_stacks.calling_frames(view.trace, alone)
    alone = alone[_is_of_user(view, trace_stacks, frame)]
    device_ns = view.device_ns(alone)
    return NO_CALLS if device_ns is None else OwnCalls(alone, device_ns)


def _begins_with(view: CaptureView, prefix: str) -> Bool:
    return np.array([name.startswith(prefix) for name in view.trace.names], bool)


def _outside(view: CaptureView, rows: Int64, nodes: Int64) -> Int64:
    """Return the operators that no backward pass calls, of the thread that calls most of them.

    Each thread numbers its own. A device's nodes are evaluated by a thread that may call more
    operators than the one that trains.
    """
    events = view.trace.events
    is_inside = np.zeros(len(rows), bool)
    for track in np.unique(events.track[nodes]).tolist():
        track_nodes = nodes[events.track[nodes] == track]
        lane = union(events.start[track_nodes], events.end[track_nodes])
        position = np.searchsorted(lane.start, events.start[rows], "right") - 1
        is_within = (position >= 0) & (events.start[rows] < lane.end[position.clip(0)])
        is_inside |= is_within & (events.track[rows] == track)
    rows = rows[~is_inside]
    tracks, counts = np.unique(events.track[rows], return_counts=True)
    return rows[events.track[rows] == tracks[counts.argmax()]] if len(rows) else rows


def _find_makers(view: CaptureView, rows: Int64) -> tuple[Int64, Int64]:
    """Return the last operator to begin with each number, and the outermost one around it."""
    events = view.trace.events
    rows, roots = _find_roots(view, rows)
    order = np.argsort(events.correlation[rows], kind="stable")
    numbers = events.correlation[rows][order]
    is_last = np.append(numbers[1:] != numbers[:-1], [True])[: len(rows)]
    return rows[order[is_last]], roots[order[is_last]]


def _find_roots(view: CaptureView, rows: Int64) -> tuple[Int64, Int64]:
    """Return operators of a thread as they begin, and the outermost one around each."""
    events = view.trace.events
    rows = rows[np.lexsort((-events.end[rows], events.start[rows]))]
    reach = np.maximum.accumulate(events.end[rows])
    is_root = np.append([True], events.start[rows][1:] >= reach[:-1])[: len(rows)]
    return rows, rows[np.flatnonzero(is_root)[np.cumsum(is_root) - 1]]


def _is_called_by_user(view: CaptureView, trace_stacks: Stacks, rows: Int64) -> Bool:
    return _is_of_user(view, trace_stacks, trace_stacks.innermost_frames(view.trace, rows))


def _is_of_user(view: CaptureView, trace_stacks: Stacks, frame: Int64) -> Bool:
    names = view.trace.events.name[trace_stacks.frames].astype(np.int64)
    is_user = np.isin(names, list(trace_stacks.user_names))
    return (frame >= 0) & is_user[frame.clip(0)]
