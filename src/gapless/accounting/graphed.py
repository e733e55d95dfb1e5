"""What the training thread called, and whether a backward pass needs the graph that it made.

Autograd numbers the nodes of a graph as a thread makes them. The profiler notes with each operator
the number that comes next as it begins, and with a node that is evaluated the node's own.
"""

import re
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from gapless.accounting.intervals import piece_at, union
from gapless.accounting.nesting import parents
from gapless.accounting.steps import find_steps
from gapless.accounting.threads import Bool, Threads
from gapless.model import category
from gapless.model.trace import Int64, Shape, Trace

PLAIN, USED, SPARE = range(3)  # made no nodes; some that a backward pass needs; none of these
Sizes = tuple[int, ...]
_NODE: Final = re.compile(r"^autograd::engine::evaluate_function")
_GRADIENT: Final = re.compile(r"Backward\d*$")  # a node's own work: its inputs are gradients
_STORED: Final = re.compile(r"AccumulateGrad$")  # its input is as large as the parameter
_OWN: Final = re.compile(rf"{_NODE.pattern}|{_GRADIENT.pattern}|^torch::autograd::")
_BESIDE: Final = re.compile(  # no part of a model's passes
    r"^enumerate\(DataLoader\)|^Optimizer\.zero_grad#|^gapless:(iter|look|save|logging|eval)$"
)
_CAST: Final = re.compile(r"^aten::(to|_to_copy)$")
_CAST_NODE: Final = re.compile(r"ToCopyBackward\d*$")  # autocast keeps weights for the next pass
_SIZED: Final = re.compile(r"^aten::(\w+_like|new_\w+|broadcast_tensors)$")
_COMPILED: Final = re.compile(r"Compiled|^triton_|^graph_\d+_cpp_")  # inputs are not all told
_OURS: Final = re.compile(r"^gapless:")
_NO_TENSOR: Final = frozenset({"", "Scalar", "ScalarList"})
_LEAST: Final = 0.001  # of the steps: where less is spent nobody looks closer
_FEWEST: Final = 0.01  # of the nodes that were made
_MOST: Final = 300_000  # operators, each of which is looked at
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Calls:
    """The outermost operators of the training thread in whole steps, beside backward passes."""

    event: Int64
    start: Int64
    end: Int64
    step: Int64
    steps: int
    part: Int64  # how often the thread itself had evaluated nodes before
    key: Int64  # the same for the same operator with inputs of the same sizes
    state: Int64
    casts: Bool
    sized: Bool  # it asks for the sizes of its inputs alone
    opaque: Bool  # what it takes is not known
    first: Int64  # the numbers of the nodes that it made: from here …
    following: Int64  # … up to here
    detail: Int64  # → sizes
    sizes: tuple[frozenset[Sizes], ...]  # of the tensors among the inputs, by shape
    gradients: dict[int, frozenset[Sizes]]  # of results, by the number of a node
    parameters: frozenset[Sizes]

    def taken(self, at: int) -> frozenset[Sizes]:
        """Give the sizes of the tensors that a call takes."""
        detail = int(self.detail[at])
        return self.sizes[detail] if detail >= 0 else frozenset()

    def given(self, at: int) -> frozenset[Sizes]:
        """Give the sizes of what a call gives, as far as a backward pass needs its nodes."""
        if self.state[at] != USED:
            return frozenset()
        numbers = range(int(self.first[at]), max(int(self.first[at]) + 1, int(self.following[at])))
        known = (self.gradients[one] for one in numbers if one in self.gradients)
        return frozenset[Sizes]().union(*known)


def graphed(threads: Threads) -> Calls | None:
    """Give the calls; ``None`` where all of them are needed, or which are cannot be told."""
    trace, steps = threads.trace, find_steps(threads)
    events = trace.events
    nodes = _operators(trace, _NODE)
    if steps is None or steps.numbers is None or not _leaves_some(threads, nodes):
        return None
    rows, part, first, following = _called(threads, nodes)
    step = np.searchsorted(steps.boundaries, events.start[rows], side="right") - 1
    casts = _matches(trace, _CAST)[events.name[rows]]
    kept = nodes[~_matches(trace, _CAST_NODE)[events.name[nodes]]]
    by_all, by_kept = (_states(first, following, events.correlation[one]) for one in (nodes, kept))
    state = np.where(casts, by_all, by_kept)
    whole = (step >= 0) & (step < len(steps.numbers))
    spent = (events.end[rows] - events.start[rows])[whole & (state == SPARE)].sum()
    length = steps.boundaries[-1] - steps.boundaries[0]
    if spent < _LEAST * length or np.count_nonzero(whole) > _MOST:
        return None
    rows, sizes = rows[whole], tuple(map(_tensors, trace.shapes))
    return Calls(
        event=rows,
        start=events.start[rows],
        end=events.end[rows],
        step=step[whole],
        steps=len(steps.numbers),
        part=part[whole],
        key=_keys(trace, rows),
        state=state[whole],
        casts=casts[whole],
        sized=_matches(trace, _SIZED)[events.name[rows]],
        opaque=_opaque(trace, rows),
        first=first[whole],
        following=following[whole],
        detail=events.detail[rows].astype(np.int64),
        sizes=sizes,
        gradients=_gradients(trace, sizes),
        parameters=_parameters(trace, sizes),
    )


def _leaves_some(threads: Threads, nodes: Int64) -> bool:
    """Tell whether the nodes that the training thread made are more than backward passes used."""
    events = threads.trace.events
    mine = (events.category == category.CPU_OP) & (events.track == threads.main)
    made, used = events.correlation[mine], np.unique(events.correlation[nodes])
    made, used = made[made >= 0], used[used >= 0]
    if not len(made) or not len(used):
        return False
    first, last = int(made.min()), int(made.max())
    count = np.count_nonzero((used >= first) & (used < last))
    return bool(last - first - count >= _FEWEST * (last - first))


def _called(threads: Threads, nodes: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Give the outermost operators in order, the part of each, and the numbers of its nodes."""
    trace, events = threads.trace, threads.trace.events
    mine = np.flatnonzero((events.category == category.CPU_OP) & (events.track == threads.main))
    mine = mine[events.end[mine] > events.start[mine]]
    mine = mine[np.argsort(events.start[mine], kind="stable")]
    back = nodes[events.track[nodes] == threads.main]
    engine = union(events.start[back], events.end[back])
    inside = piece_at(engine, events.start[mine]) >= 0
    numbered = events.correlation[mine] >= 0
    # A backward pass that makes a graph itself numbers nodes, too: those are no operator's before.
    grown = mine[inside & numbered & ~_matches(trace, _OWN)[events.name[mine]]]
    rows = mine[~inside]
    rows = rows[parents(events.start[rows], events.end[rows]) < 0]
    track, begun = events.track[rows].astype(np.int64), events.start[rows]
    rows = rows[~threads.within(_BESIDE, track, begun) & ~threads.stepping(track, begun)]
    part = np.searchsorted(engine.start, events.start[rows])
    return rows, part, *_numbers(trace, rows, mine[~inside & numbered], grown)


def _numbers(trace: Trace, rows: Int64, numbered: Int64, grown: Int64) -> tuple[Int64, Int64]:
    """Give the number that came next when each operator began, and when it had ended."""
    events = trace.events
    first, end = events.correlation[rows], events.end[rows]
    at = np.searchsorted(events.start[numbered], end)
    following = np.append(events.correlation[numbered], -1)[at]
    then = np.append(events.start[numbered], _NEVER)[at]
    own = np.searchsorted(events.start[grown], end) == np.searchsorted(events.start[grown], then)
    return first, np.where(own, following, -1)


def _states(first: Int64, following: Int64, used: Int64) -> Int64:
    """Tell what operators made: of one that no other follows its first node alone can be told."""
    upto, used = np.where(following < 0, first + 1, following), np.unique(used[used >= 0])
    needed = np.append(used, _NEVER)[np.searchsorted(used, first)] < upto
    spare = np.where(following > first, SPARE, PLAIN)
    return np.where(first < 0, PLAIN, np.where(needed, USED, spare))


# ── Sizes ───────────────────────────────────────────────────────────────────────────────────────


def _keys(trace: Trace, rows: Int64) -> Int64:
    """Give a number for what was called: the operator, and the sizes of all of its inputs."""
    distinct: dict[tuple[object, ...], int] = {}
    sizes = [distinct.setdefault(one.dims, len(distinct)) for one in trace.shapes]
    by_shape = np.array([*sizes, len(distinct)], np.int64)  # the last: of what has no shape
    events = trace.events
    return events.name[rows].astype(np.int64) * (len(distinct) + 1) + by_shape[events.detail[rows]]


def _opaque(trace: Trace, rows: Int64) -> Bool:
    """Tell which calls are of compiled code, or have no inputs that were recorded."""
    events = trace.events
    told = np.array([*(bool(one.types) for one in trace.shapes), False], bool)
    name = events.name[rows]
    hidden = ~told[events.detail[rows]] & ~_matches(trace, _OURS)[name]
    return hidden | _matches(trace, _COMPILED)[name]


def _tensors(shape: Shape) -> frozenset[Sizes]:
    """Give the sizes of the tensors among some inputs; () is a tensor of one number."""
    found: set[Sizes] = set()
    for dims, kind in zip(shape.dims, shape.types, strict=False):
        if kind not in _NO_TENSOR and isinstance(dims, tuple):
            parts = cast("tuple[object, ...]", dims)
            several = any(isinstance(one, tuple) for one in parts) or kind == "TensorList"
            found.update(cast("tuple[Sizes, ...]", parts if several else (parts,)))
    return frozenset(found)


def _gradients(trace: Trace, sizes: tuple[frozenset[Sizes], ...]) -> dict[int, frozenset[Sizes]]:
    """Give the sizes of what each evaluated node was given: those of what its operator gave."""
    events = trace.events
    rows = _operators(trace, _GRADIENT)
    rows = rows[(events.detail[rows] >= 0) & (events.correlation[rows] >= 0)]
    numbers, details = events.correlation[rows].tolist(), events.detail[rows].tolist()
    return {one: sizes[detail] for one, detail in zip(numbers, details, strict=True)}


def _parameters(trace: Trace, sizes: tuple[frozenset[Sizes], ...]) -> frozenset[Sizes]:
    """Give the sizes of what gradients are stored for."""
    details: list[int] = np.unique(trace.events.detail[_operators(trace, _STORED)]).tolist()
    return frozenset[Sizes]().union(*(sizes[one] for one in details if one >= 0))


def _operators(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    events = trace.events
    named = _matches(trace, pattern)[events.name]
    return np.flatnonzero(named & (events.category == category.CPU_OP))


def _matches(trace: Trace, pattern: re.Pattern[str]) -> Bool:
    return np.array([pattern.search(name) is not None for name in trace.names], bool)
