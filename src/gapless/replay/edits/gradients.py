"""When gradients become ready in a backward pass, and which collectives exchange them.

Autograd marks each gradient that it accumulates, with its size. DistributedDataParallel hands a
bucket over inside the mark of the last of its gradients; who exchanges by hand does so after the
pass. The collectives of a pass are known by their sizes: together they are its gradients.
"""

from collections.abc import Iterable
from typing import Final, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from gapless.accounting.host.steps import find_steps
from gapless.accounting.intervals import Lane, empty_column, piece_at, union
from gapless.model.reducer import COPY_BACK, REDUCE_CALL
from gapless.model.trace import Int64, Shape
from gapless.replay.edits.select import ReplayView, find_calls
from gapless.replay.graph.imputation import Bool
from gapless.replay.graph.nodes import Graph, Op
from gapless.replay.graph.simulate import fill_column

_GRADIENT: Final = "torch::autograd::AccumulateGrad"
_MARK: Final = f"autograd::engine::evaluate_function: {_GRADIENT}"
_FORWARD: Final = "DistributedDataParallel.forward"
_NUMBER_BYTES: Final = {"float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2}


class BackwardPass(Struct, frozen=True):
    """A backward pass: its gradients as they become ready, and the collectives of these."""

    track: int  # of the thread that accumulates gradients
    ready: Int64
    bytes: Int64
    calls: Lane  # each hands a collective over
    call_track: int
    is_by_hand: bool  # they come after the pass, none as soon as its gradients are ready
    jobs: Int64  # activities of the graph: these collectives
    job_bytes: Int64
    copies: Int64  # when each gradient is copied back from its bucket; empty: none is
    copy_track: int


class _Reductions(Struct, frozen=True):
    """Calls of ``all_reduce``, in order of start; ``jobs``: what each launches, −1 unknown."""

    event: Int64
    track: Int64
    start: Int64
    end: Int64
    elements: Int64
    jobs: Int64
    is_inside: Int64  # of a mark: 1

    def take(self, rows: Int64) -> "_Reductions":
        """Select calls."""
        return _Reductions(**{name: column[rows] for name, column in asdict(self).items()})


class _Gradients(Struct, frozen=True):
    """Gradients as they are accumulated, in order."""

    track: Int64
    start: Int64
    end: Int64
    elements: Int64
    bytes: Int64


def find_passes(view: ReplayView, graph: Graph) -> tuple[BackwardPass, ...]:
    """Return the backward passes whose gradients and collectives a rank's graph holds in full."""
    gradients = _find_gradients(view)
    reductions = _find_reductions(view, graph, gradients)
    bounds = _pass_bounds(view)
    of_gradient = np.searchsorted(bounds, gradients.start, side="right")
    of_call = np.searchsorted(bounds, reductions.start, side="right")
    passes: list[BackwardPass] = []
    for number in np.unique(of_call).tolist():
        own_calls = reductions.take(np.flatnonzero(of_call == number))
        rows = np.flatnonzero(of_gradient == number)
        backward = _match_pass(gradients, rows, own_calls)
        if backward is not None:
            passes.append(_with_copies(view, backward, bounds[number : number + 1]))
    return tuple(passes)


def _with_copies(view: ReplayView, backward: BackwardPass, bound: Int64) -> BackwardPass:
    """Return a pass with the copies back of its gradients, if it has one of each."""
    events = view.joined_trace.threads.trace.events
    copies = find_calls(view, (COPY_BACK,))
    start = events.start[copies]
    is_own = start >= backward.ready[-1]
    if len(bound):
        is_own &= start < bound[0]
    copies = copies[is_own][np.argsort(start[is_own], kind="stable")]
    if len(copies) != len(backward.ready):
        return backward
    return replace(backward, copies=events.start[copies], copy_track=int(events.track[copies[0]]))


def _pass_bounds(view: ReplayView) -> Int64:
    """Return when forward passes of the wrapper begin; without one, when steps do."""
    events = view.joined_trace.threads.trace.events
    forwards = np.sort(events.start[find_calls(view, (_FORWARD,))])
    if len(forwards):
        return forwards
    steps = find_steps(view.joined_trace.threads)
    return forwards if steps is None else steps.boundaries


def _find_gradients(view: ReplayView) -> _Gradients:
    trace = view.joined_trace.threads.trace
    events = trace.events
    marks, gradients = find_calls(view, (_MARK,)), find_calls(view, (_GRADIENT,))
    marks = marks[np.lexsort((events.start[marks], events.track[marks]))]
    gradients = gradients[np.lexsort((events.start[gradients], events.track[gradients]))]
    if len(marks) != len(gradients):  # a window cuts one of them off
        marks = gradients
    shapes = [_shape_of(view, row) for row in gradients.tolist()]
    elements = np.array([_count_elements(shape) for shape in shapes], np.int64)
    sizes = np.array([_NUMBER_BYTES.get("".join(shape.types[:1]), 4) for shape in shapes], np.int64)
    order = np.argsort(events.start[marks], kind="stable")
    return _Gradients(
        events.track[marks][order].astype(np.int64),
        events.start[marks][order],
        events.end[marks][order],
        elements[order],
        (elements * sizes)[order],
    )


def _find_reductions(view: ReplayView, graph: Graph, gradients: _Gradients) -> _Reductions:
    events = view.joined_trace.threads.trace.events
    calls = find_calls(view, (REDUCE_CALL,))
    calls = calls[np.argsort(events.start[calls], kind="stable")]
    elements = [_count_elements(_shape_of(view, row)) for row in calls.tolist()]
    piece = piece_at(union(gradients.start, gradients.end), events.start[calls])
    return _Reductions(
        calls,
        events.track[calls].astype(np.int64),
        events.start[calls],
        events.end[calls],
        np.array(elements, np.int64),
        _launched_jobs(
            graph,
            events.track[calls].astype(np.int64),
            events.start[calls],
            events.end[calls],
        ),
        (piece >= 0).astype(np.int64),
    )


def _launched_jobs(graph: Graph, track: Int64, start: Int64, end: Int64) -> Int64:
    """Return the collective that is launched in each call, −1 where none is, or several are."""
    jobs = np.full(len(start), -1)
    for thread in graph.threads:
        rows = np.flatnonzero(thread.ops == Op.LAUNCH)
        rows = rows[_is_met(graph, thread.args[rows].astype(np.int64))]
        own_calls = np.flatnonzero(track == thread.track)
        first = np.searchsorted(thread.begin[rows], start[own_calls])
        beyond = np.searchsorted(thread.begin[rows], end[own_calls], side="right")
        is_sole = beyond - first == 1
        jobs[own_calls[is_sole]] = thread.args[rows[first[is_sole]]]
    return jobs


def _is_met(graph: Graph, jobs: Int64) -> Bool:
    return fill_column(graph.work.meeting, len(graph.work.stream), -1)[jobs] >= 0


def _match_pass(gradients: _Gradients, rows: Int64, reductions: _Reductions) -> BackwardPass | None:
    """Return a pass whose collectives are all of its gradients; ``None``: they are not."""
    inside = np.flatnonzero(reductions.is_inside)
    if len(inside):
        reductions = reductions.take(inside)
    elif len(rows):
        reductions = reductions.take(np.flatnonzero(reductions.start >= gradients.end[rows[-1]]))
    if not len(reductions.start) or (reductions.jobs < 0).any():
        return None
    if (reductions.elements <= 0).any() or (gradients.elements[rows] <= 0).any():
        return None
    # Passes before the last one only add to gradients.
    counted = np.cumsum(gradients.elements[rows][::-1])
    matching = np.flatnonzero(counted == reductions.elements.sum())
    if not len(matching):
        return None
    rows = rows[len(rows) - 1 - int(matching[0]) :]
    before = np.searchsorted(reductions.start, gradients.end[rows]) - 1
    is_cut = (before >= 0) & (reductions.start[before] > gradients.start[rows])
    ready = np.where(is_cut, reductions.start[before] - 1, gradients.end[rows])
    n_bytes, n_elements = gradients.bytes[rows].sum(), gradients.elements[rows].sum()
    lane = union(reductions.start, reductions.end)
    return BackwardPass(
        track=int(gradients.track[rows[0]]),
        ready=ready,
        bytes=gradients.bytes[rows],
        calls=Lane(lane.start, lane.end, reductions.event[lane.owner]),
        call_track=int(reductions.track[0]),
        is_by_hand=not len(inside),
        jobs=reductions.jobs,
        job_bytes=reductions.elements * n_bytes // n_elements,
        copies=empty_column(),
        copy_track=-1,
    )


def _shape_of(view: ReplayView, event: int) -> Shape:
    trace = view.joined_trace.threads.trace
    detail = int(trace.events.detail[event])
    return trace.shapes[detail] if detail >= 0 else Shape()


def _count_elements(shape: Shape) -> int:
    """Count the numbers of the first input of a call: a tensor, or a list of them."""
    if not shape.dims:
        return 0  # not recorded
    dims = cast("tuple[object, ...]", shape.dims[0])
    tensors = dims if any(isinstance(dim, tuple) for dim in dims) else (dims,)
    return sum(_multiply(cast("Iterable[int]", tensor)) for tensor in tensors)


def _multiply(dims: Iterable[int]) -> int:
    return int(np.prod(np.array([*dims], np.int64)))
