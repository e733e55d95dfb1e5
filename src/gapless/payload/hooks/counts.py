"""Calls that are counted, not marked: they say what an edit could change.

Backward passes (how many make a step; of the first steps only, since all have some), emptied
caches, gradients set to zero, activations that are computed again, DDP set not to exchange.
Written as a fact of noun "calls" now and then.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import compiling, imports, patching, recorder, tracebacks
from . import calls

_SECOND = 1_000_000_000
_DENSE = 200  # seconds in which it is written each second; then ever more rarely
_LOOKS = (1, 2, 3, 10)
_MAX_COUNTED_STEPS = 200  # steps whose backward passes are counted


class _CallCounts:
    """The counts of a process, as a thing that facts can be about."""


_COUNTS = _CallCounts()
_counts: dict[str, int] = {}
_state = {"edges": 0, "first": 0, "last": 0, "passes": 0, "steps": -1, "now": -1}
_passes = {"counting": True, "steps": 0, "passes": 0}  # between ends of steps


def install() -> None:
    """Wait for torch, whole; write at step edges."""
    imports.when_imported("torch", _watch_torch)
    imports.when_imported("torch.utils.checkpoint", _watch_checkpoint)
    begin()
    recorder.on_edge(edge, seldom=True)
    recorder.on_child(begin)


def begin() -> None:
    """Count from 0: another log begins."""
    for name in list(_counts):
        _counts[name] = 0
    _state.update(edges=0, first=0, last=0, passes=0, steps=-1, now=-1)
    _passes.update(counting=True, steps=0, passes=0)


def _watch_torch(torch: Any) -> None:
    _counts["backward"] = 0
    patching.replace(torch.autograd, "backward", _wrap_backward)
    memory = sys.modules.get("torch.cuda.memory")
    calls.replace_everywhere((memory, torch.cuda), "empty_cache", _count_calls("empty_cache"))
    _counts.update(zero_grad_to_zero=0, checkpointing=0)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        patching.replace(owner, "zero_grad", _wrap_zero_grad)
    patching.replace(torch.nn.parallel.DistributedDataParallel, "no_sync", _count_calls("no_sync"))


def _watch_checkpoint(module: Any) -> None:
    """Count where its two ways lead through: compilers know ``checkpoint`` itself by identity."""
    make = _count_calls("checkpointing")
    if callable(getattr(module, "_checkpoint_without_reentrant_generator", None)):
        patching.replace(module, "_checkpoint_without_reentrant_generator", make)
    patching.replace(module.CheckpointFunction, "forward", make)


def _count_calls(name: str) -> Any:
    _counts.setdefault(name, 0)

    def count(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG001 - the form of `around`
        _counts[name] += 1

    return calls.around("counts", count)


def _wrap_backward(original: Any) -> Any:
    """Return ``backward``, counted. It is for every step: what is usual is written out here."""
    tracing, passes = compiling.get_is_compiling(), _passes

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if passes["counting"] and not tracing():
            _counts["backward"] += 1
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            tracebacks.strip(error)
            raise

    return calls.make_transparent(backward)


def _wrap_zero_grad(original: Any) -> Any:
    """Return ``zero_grad``, with the calls counted that keep gradients; likewise."""
    tracing = compiling.get_is_compiling()

    @functools.wraps(original)
    def zero_grad(*args: Any, **kwargs: Any) -> Any:
        if (kwargs or len(args) > 1) and not tracing():
            set_to_none = kwargs.get("set_to_none", args[1] if len(args) > 1 else True)
            _counts["zero_grad_to_zero"] += set_to_none is False
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            tracebacks.strip(error)
            raise

    return calls.make_transparent(zero_grad)


@patching.guard("counts")
def edge(number: int, start: int, end: int) -> None:  # noqa: ARG001 - the form of an edge's action
    """Write the counts at the first edges, then once a second, and more and more seldom."""
    state = _state
    state["edges"] += 1
    state["first"] = state["first"] or end
    due = max(_SECOND, (end - state["first"]) // _DENSE)
    if state["edges"] not in _LOOKS and end - state["last"] < due:
        return
    state["last"] = end
    _compare_edges(number, _counts.get("backward", 0))
    values: dict[str, Any] = {name: count for name, count in _counts.items() if name != "backward"}
    values.update(steps=_passes["steps"], passes=_passes["passes"])
    recorder.fact("calls", _COUNTS, values, None)


def _compare_edges(number: int, passes: int) -> None:
    """Count steps and passes between two ends of steps: their ratio is that of whole steps."""
    state = _state
    if state["steps"] < 0 or number < state["now"]:  # the first edge, or another anchor's
        state.update(steps=number, passes=passes)
        _passes["counting"] = True
    state["now"] = number
    if _passes["counting"]:
        steps = number - state["steps"]
        _passes.update(
            steps=steps, passes=passes - state["passes"], counting=steps < _MAX_COUNTED_STEPS
        )
