"""Loops in Python over data: the same small operators, called far more often than a model does.

A model calls an operator a few times for each of its parameters. Code that calls one many times
more often loops over samples, objects, nodes or time steps. On a CPU each call costs some
microseconds of Python and torch's dispatch, whatever it computes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gapless.catalogue.queries import optimizer_steps, windows
from gapless.catalogue.queries.products import weight_of
from gapless.model.change import HostChange
from gapless.model.edit import Location
from gapless.model.estimate import Estimate
from gapless.model.evidence import Evidence
from gapless.model.leaf import PARAMETER_LEAVES
from gapless.model.study import LOOPED, Site
from gapless.model.work import Work
from gapless.roofline.padding import sizes_of

PYTHON: Final = "idle.host.python"
ENGINE: Final = ("idle.host.dispatch", "idle.host.engine")  # without a device: autograd's own time
LEAVES: Final = (PYTHON, *ENGINE, "busy.")
# Loops over parameters have rules of their own.
NODE: Final = "autograd::engine::evaluate_function: "
GRADIENT: Final = f"{NODE}torch::autograd::AccumulateGrad"
_SMALL_NS: Final = 100_000.0  # a call in a window; a longer one mostly computes
# Operators on one time step, which a single call for all time steps can replace.
CELLS: Final = tuple(f"aten::{name}_cell" for name in ("gru", "lstm", "rnn_relu", "rnn_tanh"))
# Calls of an operator in a step: as many as a short sentence has rounds, more than layers.
MIN_CALLS: Final = 20
_MIN_CALLS_PER_TENSOR: Final = 4  # for each parameter tensor: attention or a gate takes fewer
# Of all forward calls: in a loop of twenty rounds all operators are called that often; in one of a
# few rounds, or in layers, only those that occur in it several times.
MIN_CALL_SHARE: Final = 0.5
_MIN_NODE_SHARE: Final = 0.5  # nodes of a backward pass to the calls that they differentiate
_TENSOR_CALLS: Final = 3  # of ``torch.tensor``: it makes one, lifts it and detaches it
_MIN_TENSOR_SHARE: Final = 0.2  # of a loop's calls, for it to be one that makes tensors
# A core moves (in its caches) and multiplies at most this: a lower bound for what a call takes.
_BYTES_NS: Final = 30.0
_FLOPS_NS: Final = 100.0
_VIEW_OPERATORS: Final = frozenset(  # they compute nothing, whatever the size of their inputs
    f"aten::{name}"
    for name in (
        *("alias", "as_strided", "detach", "expand", "narrow", "numpy_T", "permute", "select"),
        *("slice", "squeeze", "t", "transpose", "unbind", "unsqueeze", "view"),
    )
)
_CALL_NS: Final = 5_000.0  # torch 2.13: 3.3 to 3.9 µs an operation, plus the profiler
# In five loops that were rewritten (1.5 to 4.5 times as fast), 0.6 of that time or more was saved;
# a loop whose rounds need one another's results keeps most of its calls.
_REMOVED_SHARE: Final = Estimate(0.15, 0.8, 1.0)


class Loop(Struct, frozen=True):
    """What calls in a step's loops over data take, as shares of the time of some leaves."""

    calls: float  # of small operators, a step
    main_operators: tuple[
        tuple[str, float], ...
    ]  # forward operators and their calls a step, most first
    python_share: float  # of ``idle.host.python``
    engine_share: float  # of autograd's own time
    work_share: float  # of all operators' time
    # All time of these operators: one large call, or a fused one, may compute faster.
    max_work_share: float
    holder: Location | None = None  # the function that holds it, where stacks of windows tell

    @property
    def n_tensors(self) -> float:
        """Count the tensors that ``torch.tensor`` makes from Python numbers in a step.

        It detaches each; ``x[i] = number`` makes one, too, but does not detach it. 0 where the loop
        mostly calls others: a policy that acts makes one of each observation, and much else.
        """
        calls_by_name = dict(self.main_operators)
        n_tensors = min(
            calls_by_name.get("aten::lift_fresh", 0.0), calls_by_name.get("aten::detach_", 0.0)
        )
        n_calls = sum(calls_by_name.values())
        return n_tensors if _TENSOR_CALLS * n_tensors >= _MIN_TENSOR_SHARE * n_calls else 0.0


def find_loop(evidence: Evidence) -> Loop | None:
    """Return the loop over data of a training on the CPU alone; ``None``: there is none.

    Of several in as many functions it is the one that calls most, where stacks of windows tell them
    apart: who rewrites one leaves the others as they are. Without such stacks it is all of them.
    """
    n_tensors, work = optimizer_steps.count_tensors(evidence), evidence.study.work
    if evidence.on_device or n_tensors is None or all(row.backward for row in work):
        return None
    n_steps = windows.count_steps(evidence)
    min_calls = (
        max(MIN_CALLS, _MIN_CALLS_PER_TENSOR * n_tensors)
        * _count_passes(evidence, n_tensors)
        * n_steps
    )
    forward, backward = (
        _select_repeated([row for row in work if row.backward == is_backward], min_calls)
        for is_backward in (False, True)
    )
    model_rows = (
        row for row in work if not row.backward and not row.leaf.startswith(PARAMETER_LEAVES)
    )
    if count_calls(forward) < MIN_CALL_SHARE * count_calls(model_rows):
        return None
    holder = _find_holder(evidence, forward)
    own = forward if holder is None else _select_held(evidence, forward, holder)
    part = count_calls(own) / max(1, count_calls(forward))
    has_gradients = _has_gradients(evidence, forward)
    backward = [_scale_row(row, part) for row in backward if has_gradients]
    rows = (*own, *backward)
    leaves = evidence.study.account.leaves
    busy_ns = sum(ns for leaf, ns in leaves.items() if leaf.startswith("busy.")) or 1
    total_calls = [
        count_calls(row for row in work if row.backward == is_backward)
        for is_backward in (False, True)
    ]
    return Loop(
        calls=count_calls(rows) / n_steps,
        main_operators=tuple(
            (name, count / n_steps) for name, count in count_by_operator(own).most_common()
        ),
        python_share=count_calls(own) / total_calls[0],
        engine_share=count_calls(backward) / max(1, total_calls[1]),
        work_share=min(1.0, sum(map(_saved_call_ns, rows)) / busy_ns),
        max_work_share=min(1.0, sum(row.ns for row in rows) / busy_ns),
        holder=holder,
    )


def _find_holder(evidence: Evidence, rows: Sequence[Work]) -> Location | None:
    """Return the function whose loop calls most of what rows of operators hold."""
    calls: Counter[Location] = Counter()
    for site in _loop_sites(evidence, rows):
        calls[_function_of(site)] += site.calls
    return calls.most_common(1)[0][0] if calls else None


def _select_held(evidence: Evidence, rows: Sequence[Work], holder: Location) -> list[Work]:
    """Return the part of rows of operators that a function's loop calls.

    Stacks are of a window of their own, whose steps may call more or less than others: it tells
    which part of an operator's calls in loops is the function's.
    """
    all_calls, held_calls = Counter[str](), Counter[str]()
    for site in _loop_sites(evidence, rows):
        name = site.name.removeprefix(LOOPED)
        all_calls[name] += site.calls
        held_calls[name] += site.calls * (_function_of(site) == holder)
    mean_part = held_calls.total() / all_calls.total()
    parts = {name: held_calls[name] / count for name, count in all_calls.items()}
    return [_scale_row(row, parts.get(row.operator, mean_part)) for row in rows]


def _loop_sites(evidence: Evidence, rows: Sequence[Work]) -> list[Site]:
    names = {f"{LOOPED}{row.operator}" for row in rows}
    return [site for site in evidence.study.sites if site.name in names and site.calls]


def _function_of(site: Site) -> Location:
    return Location(site.file, site.line, site.function)


def _scale_row(row: Work, part: float) -> Work:
    """Return a part of a row of operators."""
    return replace(
        row,
        calls=round(part * row.calls),
        ns=round(part * row.ns),
        flops=None if row.flops is None else part * row.flops,
        bytes=None if row.bytes is None else part * row.bytes,
    )


def rewrite_loop(evidence: Evidence, loop: Loop) -> HostChange:
    """Return what changes if a loop becomes a few calls; how much is one shared unknown."""
    total_ns = evidence.per_step(*LEAVES)
    usual_ns, max_ns = (
        calling_ns(evidence, loop),
        calling_ns(evidence, replace(loop, work_share=loop.max_work_share)),
    )
    removed_ns = (
        _REMOVED_SHARE.high * max_ns,
        _REMOVED_SHARE.mid * usual_ns,
        _REMOVED_SHARE.low * usual_ns,
    )
    return HostChange(
        LEAVES, Estimate(*(max(0.0, 1 - ns / total_ns) if total_ns else 1.0 for ns in removed_ns))
    )


def calling_ns(evidence: Evidence, loop: Loop) -> float:
    """Return how long the calls of loops take in a step beyond what they compute."""
    return (
        loop.python_share * evidence.per_step(PYTHON)
        + loop.engine_share * evidence.per_step(*ENGINE)
        + loop.work_share * evidence.per_step("busy.")
    )


def _count_passes(evidence: Evidence, n_tensors: int) -> float:
    """Count the backward passes of a step: micro-batches, or an optimizer's closure."""
    return max(1.0, windows.sum_calls(evidence, GRADIENT).count / max(1, n_tensors))


def _select_repeated(work: Iterable[Work], min_calls: float) -> list[Work]:
    small_rows = [
        row
        for row in work
        if not row.leaf.startswith(PARAMETER_LEAVES)
        and (row.ns <= _SMALL_NS * row.calls or row.operator in CELLS or _is_single(row))
    ]
    calls_by_operator = count_by_operator(small_rows)
    return [row for row in small_rows if calls_by_operator[row.operator] >= min_calls]


def _has_gradients(evidence: Evidence, forward: Sequence[Work]) -> bool:
    """Return whether a backward pass follows what loops call; else it is that of other calls.

    Each call of an operator whose result is differentiated has a node, or what it calls has one.
    """
    node_calls = [
        operator.calls
        for operator in evidence.study.tables.operators
        if operator.name.startswith(NODE)
    ]
    return not node_calls or any(
        max(node_calls) >= _MIN_NODE_SHARE * count for count in count_by_operator(forward).values()
    )


def _is_single(row: Work) -> bool:
    """Return whether each call takes one sample or one time step: one call could do all."""
    input_sizes = next(iter(sizes_of(row)), ())
    return 1 in input_sizes if len(input_sizes) > 1 else weight_of(row) is not None


def count_by_operator(work: Iterable[Work]) -> Counter[str]:
    """Count the calls of each operator."""
    counts = Counter[str]()
    for row in work:
        counts[row.operator] += row.calls
    return counts


def count_calls(work: Iterable[Work]) -> int:
    """Count the calls of some rows."""
    return sum(row.calls for row in work)


def _saved_call_ns(row: Work) -> float:
    """Return the time of calls that a single call for all would save.

    One sample at a time reads all weights again, and leaves most of a core's width idle.
    """
    return (
        call_overhead_ns(row)
        if _is_single(row)
        else min(call_overhead_ns(row), _CALL_NS * row.calls)
    )


def call_overhead_ns(row: Work) -> float:
    """Return the overhead of calls, at most; if their work is not known, that of calling alone."""
    if row.operator in _VIEW_OPERATORS:
        return row.ns
    if row.bytes is None:
        return min(row.ns, _CALL_NS * row.calls)
    return max(0.0, row.ns - row.bytes / _BYTES_NS - (row.flops or 0) / _FLOPS_NS)
