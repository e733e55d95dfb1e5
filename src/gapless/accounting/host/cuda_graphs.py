"""What the training thread called, and whether a backward pass needs the graph that it made.

Autograd numbers the nodes of a graph as a thread makes them. The profiler notes with each operator
the number that comes next as it begins, and with a node that is evaluated the node's own.
"""

import re
from typing import Final, cast

import numpy as np
from msgspec import Struct

from gapless.accounting.host.nesting import find_parents
from gapless.accounting.host.steps import find_steps
from gapless.accounting.host.threads import Bool, Threads
from gapless.accounting.intervals import piece_at, union
from gapless.model import category
from gapless.model.trace import Int64, Shape, Trace

PLAIN, USED, SPARE = range(3)  # made no nodes; some that a backward pass needs; none of these
Sizes = tuple[int, ...]
_NODE: Final = re.compile(r"^autograd::engine::evaluate_function")
_GRADIENT: Final = re.compile(r"Backward\d*$")  # a node's own work: its inputs are gradients
_ACCUMULATE: Final = re.compile(r"AccumulateGrad$")  # its input is as large as the parameter
_ENGINE_OPERATOR: Final = re.compile(rf"{_NODE.pattern}|{_GRADIENT.pattern}|^torch::autograd::")
_OUTSIDE_PASSES: Final = re.compile(  # no part of a model's passes
    r"^enumerate\(DataLoader\)|^Optimizer\.zero_grad#|^gapless:(iter|look|save|logging|eval)$"
)
_CAST: Final = re.compile(r"^aten::(to|_to_copy)$")
_CAST_NODE: Final = re.compile(r"ToCopyBackward\d*$")  # autocast keeps weights for the next pass
_SIZES_ONLY: Final = re.compile(r"^aten::(\w+_like|new_\w+|broadcast_tensors)$")
_COMPILED: Final = re.compile(r"Compiled|^triton_|^graph_\d+_cpp_")  # not all inputs are recorded
_GAPLESS_RANGE: Final = re.compile(r"^gapless:")
_NO_TENSOR: Final = frozenset({"", "Scalar", "ScalarList"})
_MIN_SPARE_SHARE: Final = 0.001  # of the steps: where less is spent nobody looks closer
_MIN_NODE_SHARE: Final = 0.01  # of the nodes that were made
_MAX_OPERATORS: Final = 300_000  # operators, each of which is looked at
_NEVER: Final = np.iinfo(np.int64).max


class GraphCalls(Struct, frozen=True):
    """The outermost operators of the training thread in whole steps, beside backward passes."""

    event: Int64
    start: Int64
    end: Int64
    step: Int64
    steps: int
    segment: Int64  # how often the thread itself had evaluated nodes before
    key: Int64  # the same for the same operator with inputs of the same sizes
    state: Int64
    is_cast: Bool
    sizes_only: Bool  # it asks for the sizes of its inputs alone
    is_opaque: Bool  # what it takes is not known
    first_node: Int64  # the numbers of the nodes that it made: from here …
    next_node: Int64  # … up to here
    detail: Int64  # → sizes
    sizes: tuple[frozenset[Sizes], ...]  # of the tensors among the inputs, by shape
    gradients: dict[int, frozenset[Sizes]]  # of results, by the number of a node
    parameters: frozenset[Sizes]

    def input_sizes(self, index: int) -> frozenset[Sizes]:
        """Return the sizes of the tensors that a call takes."""
        detail = int(self.detail[index])
        return self.sizes[detail] if detail >= 0 else frozenset()

    def output_sizes(self, index: int) -> frozenset[Sizes]:
        """Return the sizes of a call's results, as far as a backward pass needs its nodes."""
        if self.state[index] != USED:
            return frozenset()
        numbers = range(
            int(self.first_node[index]),
            max(int(self.first_node[index]) + 1, int(self.next_node[index])),
        )
        gradients = (self.gradients[number] for number in numbers if number in self.gradients)
        return frozenset[Sizes]().union(*gradients)


def graph_calls(threads: Threads) -> GraphCalls | None:
    """Return the calls; ``None`` where all of them are needed, or which cannot be determined."""
    trace, steps = threads.trace, find_steps(threads)
    events = trace.events
    nodes = _find_operators(trace, _NODE)
    if steps is None or steps.numbers is None or not _has_unused_nodes(threads, nodes):
        return None
    rows, segment, first_node, next_node = _outermost_calls(threads, nodes)
    step = np.searchsorted(steps.boundaries, events.start[rows], side="right") - 1
    is_cast = _name_mask(trace, _CAST)[events.name[rows]]
    kept_nodes = nodes[~_name_mask(trace, _CAST_NODE)[events.name[nodes]]]
    by_all, by_kept = (
        _node_states(first_node, next_node, events.correlation[node_rows])
        for node_rows in (nodes, kept_nodes)
    )
    state = np.where(is_cast, by_all, by_kept)
    in_steps = (step >= 0) & (step < len(steps.numbers))
    spare_ns = (events.end[rows] - events.start[rows])[in_steps & (state == SPARE)].sum()
    steps_ns = steps.boundaries[-1] - steps.boundaries[0]
    if spare_ns < _MIN_SPARE_SHARE * steps_ns or np.count_nonzero(in_steps) > _MAX_OPERATORS:
        return None
    rows, sizes = rows[in_steps], tuple(map(_tensor_sizes, trace.shapes))
    return GraphCalls(
        event=rows,
        start=events.start[rows],
        end=events.end[rows],
        step=step[in_steps],
        steps=len(steps.numbers),
        segment=segment[in_steps],
        key=_call_keys(trace, rows),
        state=state[in_steps],
        is_cast=is_cast[in_steps],
        sizes_only=_name_mask(trace, _SIZES_ONLY)[events.name[rows]],
        is_opaque=_is_opaque(trace, rows),
        first_node=first_node[in_steps],
        next_node=next_node[in_steps],
        detail=events.detail[rows].astype(np.int64),
        sizes=sizes,
        gradients=_gradient_sizes(trace, sizes),
        parameters=_parameter_sizes(trace, sizes),
    )


def _has_unused_nodes(threads: Threads, nodes: Int64) -> bool:
    """Return whether the nodes that the training thread made are more than backward passes used."""
    events = threads.trace.events
    on_main = (events.category == category.CPU_OP) & (events.track == threads.main)
    node_numbers, used_numbers = events.correlation[on_main], np.unique(events.correlation[nodes])
    node_numbers, used_numbers = node_numbers[node_numbers >= 0], used_numbers[used_numbers >= 0]
    if not len(node_numbers) or not len(used_numbers):
        return False
    lowest, highest = int(node_numbers.min()), int(node_numbers.max())
    count = np.count_nonzero((used_numbers >= lowest) & (used_numbers < highest))
    return bool(highest - lowest - count >= _MIN_NODE_SHARE * (highest - lowest))


def _outermost_calls(threads: Threads, nodes: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Return the outermost operators in order, the part of each, and the numbers of its nodes."""
    trace, events = threads.trace, threads.trace.events
    operators = np.flatnonzero(
        (events.category == category.CPU_OP) & (events.track == threads.main)
    )
    operators = operators[events.end[operators] > events.start[operators]]
    operators = operators[np.argsort(events.start[operators], kind="stable")]
    main_nodes = nodes[events.track[nodes] == threads.main]
    engine = union(events.start[main_nodes], events.end[main_nodes])
    in_engine = piece_at(engine, events.start[operators]) >= 0
    has_number = events.correlation[operators] >= 0
    # A backward pass that makes a graph itself numbers nodes, too: those are no operator's before.
    graph_makers = operators[
        in_engine & has_number & ~_name_mask(trace, _ENGINE_OPERATOR)[events.name[operators]]
    ]
    rows = operators[~in_engine]
    rows = rows[find_parents(events.start[rows], events.end[rows]) < 0]
    track, starts = events.track[rows].astype(np.int64), events.start[rows]
    rows = rows[
        ~threads.is_within(_OUTSIDE_PASSES, track, starts) & ~threads.is_stepping(track, starts)
    ]
    segment = np.searchsorted(engine.start, events.start[rows])
    return (
        rows,
        segment,
        *_node_numbers(trace, rows, operators[~in_engine & has_number], graph_makers),
    )


def _node_numbers(
    trace: Trace, rows: Int64, numbered: Int64, graph_makers: Int64
) -> tuple[Int64, Int64]:
    """Return the number that came next when each operator began, and when it had ended."""
    events = trace.events
    first_node, end = events.correlation[rows], events.end[rows]
    position = np.searchsorted(events.start[numbered], end)
    next_node = np.append(events.correlation[numbered], -1)[position]
    next_start = np.append(events.start[numbered], _NEVER)[position]
    is_adjacent = np.searchsorted(events.start[graph_makers], end) == np.searchsorted(
        events.start[graph_makers], next_start
    )
    return first_node, np.where(is_adjacent, next_node, -1)


def _node_states(first_node: Int64, next_node: Int64, used_nodes: Int64) -> Int64:
    """Return what operators made; of one that no other follows only its first node is known."""
    end_node, used_nodes = (
        np.where(next_node < 0, first_node + 1, next_node),
        np.unique(used_nodes[used_nodes >= 0]),
    )
    is_needed = np.append(used_nodes, _NEVER)[np.searchsorted(used_nodes, first_node)] < end_node
    if_unneeded = np.where(next_node > first_node, SPARE, PLAIN)
    return np.where(first_node < 0, PLAIN, np.where(is_needed, USED, if_unneeded))


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────────


def _call_keys(trace: Trace, rows: Int64) -> Int64:
    """Return a number for what was called: the operator, and the sizes of all of its inputs."""
    distinct: dict[tuple[object, ...], int] = {}
    sizes = [distinct.setdefault(shape.dims, len(distinct)) for shape in trace.shapes]
    by_shape = np.array([*sizes, len(distinct)], np.int64)  # the last: of what has no shape
    events = trace.events
    return events.name[rows].astype(np.int64) * (len(distinct) + 1) + by_shape[events.detail[rows]]


def _is_opaque(trace: Trace, rows: Int64) -> Bool:
    """Flag calls of compiled code, and calls without recorded inputs."""
    events = trace.events
    has_types = np.array([*(bool(shape.types) for shape in trace.shapes), False], bool)
    name = events.name[rows]
    is_untyped = ~has_types[events.detail[rows]] & ~_name_mask(trace, _GAPLESS_RANGE)[name]
    return is_untyped | _name_mask(trace, _COMPILED)[name]


def _tensor_sizes(shape: Shape) -> frozenset[Sizes]:
    """Return the sizes of the tensors among some inputs; () is a tensor of one number."""
    sizes: set[Sizes] = set()
    for dims, kind in zip(shape.dims, shape.types, strict=False):
        if kind not in _NO_TENSOR and isinstance(dims, tuple):
            members = cast("tuple[object, ...]", dims)
            is_list = any(isinstance(dim, tuple) for dim in members) or kind == "TensorList"
            sizes.update(cast("tuple[Sizes, ...]", members if is_list else (members,)))
    return frozenset(sizes)


def _gradient_sizes(
    trace: Trace, sizes: tuple[frozenset[Sizes], ...]
) -> dict[int, frozenset[Sizes]]:
    """Return the sizes of what each evaluated node was given: those of its operator's results."""
    events = trace.events
    rows = _find_operators(trace, _GRADIENT)
    rows = rows[(events.detail[rows] >= 0) & (events.correlation[rows] >= 0)]
    numbers, details = events.correlation[rows].tolist(), events.detail[rows].tolist()
    return {number: sizes[detail] for number, detail in zip(numbers, details, strict=True)}


def _parameter_sizes(trace: Trace, sizes: tuple[frozenset[Sizes], ...]) -> frozenset[Sizes]:
    """Return the sizes of what gradients are stored for."""
    details: list[int] = np.unique(
        trace.events.detail[_find_operators(trace, _ACCUMULATE)]
    ).tolist()
    return frozenset[Sizes]().union(*(sizes[detail] for detail in details if detail >= 0))


def _find_operators(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    events = trace.events
    is_match = _name_mask(trace, pattern)[events.name]
    return np.flatnonzero(is_match & (events.category == category.CPU_OP))


def _name_mask(trace: Trace, pattern: re.Pattern[str]) -> Bool:
    return np.array([pattern.search(name) is not None for name in trace.names], bool)
