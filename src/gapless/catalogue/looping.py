"""Loops in Python over data: the same small operators, called far more often than a model has them.

A model calls an operator a few times for each of its parameters. What is called many times as often
goes through samples, objects, nodes or time steps one by one. On a CPU each call costs Python and
torch's dispatch some microseconds, whatever it computes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gapless.catalogue import optimizing, sampled, windowed
from gapless.catalogue.products import weight_of
from gapless.model.change import Hosted
from gapless.model.edit import Where
from gapless.model.interval import Interval
from gapless.model.seen import Seen
from gapless.model.tables import Line
from gapless.model.work import Work
from gapless.replay.shorter import sizes_of

PYTHON: Final = "idle.host.python"
ENGINE: Final = ("idle.host.dispatch", "idle.host.engine")  # without a device: autograd's own
LEAVES: Final = (PYTHON, *ENGINE, "busy.")
# Who goes through parameters one by one is told of by rules of their own.
ELSEWHERE: Final = ("busy.optimizer", "busy.gradclip_scaler", "busy.zero_grad")
GRADIENT: Final = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
_SMALL_NS: Final = 100_000.0  # a call in a window; what takes longer mostly computes
# One time step each, of many operators: what is there to call them once for all time steps.
CELLS: Final = tuple(f"aten::{name}_cell" for name in ("gru", "lstm", "rnn_relu", "rnn_tanh"))
_MANY: Final = 20  # calls of an operator, a step: rounds of a short sentence, not yet of layers
_PER_TENSOR: Final = 4  # and for each tensor of parameters: attention or a gate takes fewer
# Of all calls forward: in a loop of twenty rounds all operators are called that often, in one of a
# few rounds, or in layers, only those that stand in it several times.
_MOST: Final = 0.5
# A core moves (in its caches) and multiplies no more than this: what a call computes takes no less.
_BYTES_NS: Final = 30.0
_FLOPS_NS: Final = 100.0
_VIEWS: Final = frozenset(  # they compute nothing, whatever the size of what they are called with
    f"aten::{name}"
    for name in (
        *("alias", "as_strided", "detach", "expand", "narrow", "numpy_T", "permute", "select"),
        *("slice", "squeeze", "t", "transpose", "unbind", "unsqueeze", "view"),
    )
)
_CALL_NS: Final = 5_000.0  # torch 2.13: 3.3 to 3.9 µs an operation, and the profiler
# Of five loops that were rewritten, 1.5 to 4.5 times as fast then, 0.6 of that time went, or more;
# one whose rounds need one another's results keeps most of its calls.
_GOES: Final = Interval(0.15, 0.8, 1.0)


@dataclass(frozen=True)
class Loop:
    """What a step's loops over data take, as shares of the time of some leaves: calls alone."""

    calls: float  # of small operators, a step
    mainly: tuple[tuple[str, float], ...]  # operators and calls of each a step, forward, most first
    python: float  # of ``idle.host.python``
    engine: float  # of autograd's own time
    work: float  # of all operators' time
    most: float  # of that time all of theirs: one large call computes faster, or a fused one

    @property
    def tensors(self) -> float:
        """Count the tensors that ``torch.tensor`` made of Python's numbers, a step.

        It detaches each; ``x[i] = number`` makes one, too, and does not.
        """
        called = dict(self.mainly)
        return min(called.get("aten::lift_fresh", 0.0), called.get("aten::detach_", 0.0))


def loop_of(seen: Seen) -> Loop | None:
    """Give what loops over data take of a training on the CPU alone; ``None``: there are none."""
    tensors, work = optimizing.tensors(seen), seen.study.work
    if seen.on_device or tensors is None or all(one.backward for one in work):
        return None
    steps = windowed.steps(seen)
    least = max(_MANY, _PER_TENSOR * tensors) * _passes(seen, tensors) * steps
    forward, backward = (
        _repeated([one for one in work if one.backward == back], least) for back in (False, True)
    )
    of_model = (one for one in work if not one.backward and not one.leaf.startswith(ELSEWHERE))
    if calls_of(forward) < _MOST * calls_of(of_model):
        return None
    every = (*forward, *backward)
    leaves = seen.study.account.leaves
    whole = sum(ns for leaf, ns in leaves.items() if leaf.startswith("busy.")) or 1
    calls = [calls_of(one for one in work if one.backward == back) for back in (False, True)]
    return Loop(
        calls=calls_of(every) / steps,
        mainly=tuple((name, many / steps) for name, many in names_of(forward).most_common()),
        python=calls_of(forward) / calls[0],
        engine=calls_of(backward) / max(1, calls[1]),
        work=min(1.0, sum(map(_calling_of, every)) / whole),
        most=min(1.0, sum(one.ns for one in every) / whole),
    )


def rewritten(seen: Seen, loop: Loop) -> Hosted:
    """Give what changes if a loop becomes a few calls: how much goes is one thing not known."""
    whole = seen.per_step(*LEAVES)
    usual, most = calling_ns(seen, loop), calling_ns(seen, replace(loop, work=loop.most))
    gone = (_GOES.high * most, _GOES.mid * usual, _GOES.low * usual)
    return Hosted(LEAVES, Interval(*(max(0.0, 1 - ns / whole) if whole else 1.0 for ns in gone)))


def calling_ns(seen: Seen, loop: Loop) -> float:
    """Give how long the calls of loops take a step beside what they compute."""
    return (
        loop.python * seen.per_step(PYTHON)
        + loop.engine * seen.per_step(*ENGINE)
        + loop.work * seen.per_step("busy.")
    )


def place(seen: Seen, loop: Loop) -> Where | None:
    """Give the user's function that the loop is in: the innermost that it does not call itself.

    What the loop calls is called as often as its operators.
    """
    files = {one.file for one in seen.study.sites}
    own = [one for one in seen.study.tables.lines if one.file in files and one.calls]
    direct = _calling(seen, loop, own)
    if direct is not None:
        return _sampled(seen, direct)
    seldom = [one for one in own if one.calls <= windowed.steps(seen) * _MANY / 2]
    python = seen.study.account.leaves.get(PYTHON, 0)
    whole = [one for one in seldom if one.host_total_ns >= loop.python * python / 2]
    inner = min(whole, key=lambda one: one.host_total_ns, default=None)
    return None if inner is None else Where(inner.file, inner.line, inner.function)


def _calling(seen: Seen, loop: Loop, own: Iterable[Line]) -> Where | None:
    """Give the function that calls most of the loop's operators itself, in each call many times."""
    names = dict(loop.mainly)
    calls, lines = Counter[tuple[str, str]](), dict[tuple[str, str], int]()
    for one in seen.study.sites:
        if one.name in names:
            key = one.file, one.function
            calls[key] += one.calls
            lines[key] = min(lines.get(key, one.line), one.line)
    whole = sum(names.values()) * windowed.steps(seen)
    for (file, function), many in calls.most_common(1):
        entered = sum(one.calls for one in own if (one.file, one.function) == (file, function))
        if many >= max(_MOST * whole, _MANY * entered):
            return Where(file, lines[file, function], function)
    return None


def _sampled(seen: Seen, where: Where) -> Where:
    """Give the line of a function at which its own code was sampled most, if it was."""
    top = sampled.largest(seen)
    known = sampled.where(top)
    same = top is not None and sampled.is_in(where.file, where.function or "", top)
    return known if known is not None and same else where


def _passes(seen: Seen, tensors: int) -> float:
    """Count the backward passes of a step: of micro-batches, or of an optimizer's closure."""
    return max(1.0, windowed.calls(seen, GRADIENT).count / max(1, tensors))


def _repeated(work: Iterable[Work], least: float) -> list[Work]:
    small = [
        one
        for one in work
        if not one.leaf.startswith(ELSEWHERE)
        and (one.ns <= _SMALL_NS * one.calls or one.operator in CELLS or _is_of_one(one))
    ]
    names = names_of(small)
    return [one for one in small if names[one.operator] >= least]


def _is_of_one(row: Work) -> bool:
    """Tell whether calls take one sample or one time step each: all of them fit into one call."""
    first = next(iter(sizes_of(row)), ())
    return 1 in first if len(first) > 1 else weight_of(row) is not None


def names_of(work: Iterable[Work]) -> Counter[str]:
    """Count the calls of each operator."""
    found = Counter[str]()
    for one in work:
        found[one.operator] += one.calls
    return found


def calls_of(work: Iterable[Work]) -> int:
    """Count the calls of some rows."""
    return sum(one.calls for one in work)


def _calling_of(one: Work) -> float:
    """Give what calls take that one call for all would not: no more than calling, or beside work.

    One sample at a time reads all weights again, and leaves most of a core's width idle.
    """
    return beside_ns(one) if _is_of_one(one) else min(beside_ns(one), _CALL_NS * one.calls)


def beside_ns(one: Work) -> float:
    """Give what calls take beside what they compute, at most; what is not known may compute."""
    if one.operator in _VIEWS:
        return one.ns
    if one.bytes is None:
        return min(one.ns, _CALL_NS * one.calls)
    return max(0.0, one.ns - one.bytes / _BYTES_NS - (one.flops or 0) / _FLOPS_NS)
