"""Calls that are counted, not marked: they say what an edit could change.

Backward passes (how many make a step; of the first steps only, since all have some), emptied
caches, gradients set to zero, activations that are computed again, DDP set not to exchange.
Written as a fact of noun "calls" now and then.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import compiling, declare, patching, recorder, tracebacks
from ..process_state import keep
from . import calls

_SECOND = 1_000_000_000
_DENSE = 200  # seconds in which it is written each second; then ever more rarely
_LOOKS = (1, 2, 3, 10)
_MAX_COUNTED_STEPS = 200  # steps whose backward passes are counted


class _CallCounts:
    """The counts of a process, which facts are about."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """Count from 0: another log begins."""
        self.calls.update(dict.fromkeys(self.calls, 0))
        self.edges = self.first_ns = self.last_ns = 0
        self.first_passes, self.first_step, self.last_step = 0, -1, -1
        # Between ends of steps.
        self.are_passes_counted, self.steps, self.passes = True, 0, 0


_counts = keep(_CallCounts())


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    _counts.calls["backward"] = 0
    patching.replace(torch.autograd, "backward", _wrap_backward)
    memory = sys.modules.get("torch.cuda.memory")
    calls.replace_everywhere((memory, torch.cuda), "empty_cache", _count_calls("empty_cache"))
    _counts.calls.update(zero_grad_to_zero=0, checkpointing=0)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        patching.replace(owner, "zero_grad", _wrap_zero_grad)
    patching.replace(torch.nn.parallel.DistributedDataParallel, "no_sync", _count_calls("no_sync"))


@declare.hook("torch.utils.checkpoint")
def _watch_checkpoint(module: Any) -> None:
    """Count where its two ways lead through: compilers know ``checkpoint`` itself by identity."""
    make = _count_calls("checkpointing")
    if callable(getattr(module, "_checkpoint_without_reentrant_generator", None)):
        patching.replace(module, "_checkpoint_without_reentrant_generator", make)
    patching.replace(module.CheckpointFunction, "forward", make)


def _count_calls(name: str) -> Any:
    _counts.calls.setdefault(name, 0)

    def count(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG001 - the form of `around`
        _counts.calls[name] += 1

    return calls.around("counts", count)


def _wrap_backward(original: Any) -> Any:
    """Return ``backward``, counted. It is for every step: what is usual is written out here."""
    tracing, counts = compiling.get_is_compiling(), _counts

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if counts.are_passes_counted and not tracing():
            counts.calls["backward"] += 1
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            tracebacks.strip(error)
            raise

    return backward


def _wrap_zero_grad(original: Any) -> Any:
    """Return ``zero_grad``, with the calls counted that keep gradients; likewise."""
    tracing = compiling.get_is_compiling()

    @functools.wraps(original)
    def zero_grad(*args: Any, **kwargs: Any) -> Any:
        if (kwargs or len(args) > 1) and not tracing():
            set_to_none = kwargs.get("set_to_none", args[1] if len(args) > 1 else True)
            _counts.calls["zero_grad_to_zero"] += set_to_none is False
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            tracebacks.strip(error)
            raise

    return zero_grad


@declare.at_seldom_edge
@patching.guard("counts")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Write the counts at the first edges, then once a second, and more and more seldom."""
    _counts.edges += 1
    _counts.first_ns = _counts.first_ns or end
    due = max(_SECOND, (end - _counts.first_ns) // _DENSE)
    if _counts.edges not in _LOOKS and end - _counts.last_ns < due:
        return
    _counts.last_ns = end
    _compare_edges(number, _counts.calls.get("backward", 0))
    values: dict[str, Any] = {
        name: count for name, count in _counts.calls.items() if name != "backward"
    }
    values.update(steps=_counts.steps, passes=_counts.passes)
    recorder.fact("calls", _counts, values, None)


def _compare_edges(number: int, passes: int) -> None:
    """Count steps and passes between two ends of steps: their ratio is that of whole steps."""
    if _counts.first_step < 0 or number < _counts.last_step:  # the first edge, or another anchor's
        _counts.first_step, _counts.first_passes = number, passes
        _counts.are_passes_counted = True
    _counts.last_step = number
    if _counts.are_passes_counted:
        _counts.steps, _counts.passes = number - _counts.first_step, passes - _counts.first_passes
        _counts.are_passes_counted = _counts.steps < _MAX_COUNTED_STEPS
