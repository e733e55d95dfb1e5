"""Wrap "checkpointing-off": nothing is computed again in the backward pass; all is kept."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from .. import traced
from ..patch import targets

TARGET = "torch.utils.checkpoint.checkpoint"
_NOT_THE_FUNCTIONS = ("use_reentrant", "preserve_rng_state")


def apply(number: int, edit: Any) -> targets.Undo:  # noqa: ARG001 - the form of every wrap
    """Apply an edit; return what reverts it."""
    traced_edit = traced.TracedEdit(number, TARGET, "recomputed", "kept")
    replace = functools.partial(_replace, traced_edit)
    undos = [targets.on_target(number, name, replace) for name in (TARGET, TARGET + "_sequential")]
    return functools.partial(targets.undo_all, [*undos, traced_edit.look])


def _replace(traced_edit: traced.TracedEdit, owner: Any, name: str) -> targets.Undo:
    make = _wrap_checkpoint if name == "checkpoint" else _wrap_sequential
    return targets.replace(owner, name, functools.partial(make, traced_edit))


def _wrap_checkpoint(traced_edit: traced.TracedEdit, original: Any, switch: targets.Switch) -> Any:
    option_names = {*_NOT_THE_FUNCTIONS, *_keywords(original)}

    @functools.wraps(original)
    def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules["torch"]
        if not switch.on or _cuts(torch, traced_edit, args, kwargs.get("use_reentrant")):
            return original(function, *args, **kwargs)
        if torch.is_grad_enabled():
            traced_edit.now()
        function_kwargs = {
            name: value for name, value in kwargs.items() if name not in option_names
        }
        return function(*args, **function_kwargs)

    return checkpoint


def _wrap_sequential(traced_edit: traced.TracedEdit, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def checkpoint_sequential(
        functions: Any,
        segments: Any,
        input: Any,  # noqa: A002 - torch's name
        use_reentrant: Any = None,
        **kwargs: Any,
    ) -> Any:
        torch = sys.modules["torch"]
        if not switch.on or _cuts(torch, traced_edit, (input,), use_reentrant):
            return original(functions, segments, input, use_reentrant, **kwargs)
        if torch.is_grad_enabled():
            traced_edit.now()
        sequence = functions.children() if isinstance(functions, torch.nn.Sequential) else functions
        for function in sequence:
            input = function(input)  # noqa: A001 - torch's name
        return input

    return checkpoint_sequential


def _keywords(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]


def _cuts(torch: Any, traced_edit: traced.TracedEdit, values: tuple, reentrant: Any) -> bool:
    """Return whether a call yields no gradients for want of an input with any (reentrant only).

    Without the checkpoint it would yield some: another training. No word on it means reentrant.
    """
    if reentrant is False or not torch.is_grad_enabled():
        return False
    if any(isinstance(value, torch.Tensor) and value.requires_grad for value in values):
        return False
    traced_edit.not_now("a reentrant checkpoint without inputs that need gradients")
    return True
