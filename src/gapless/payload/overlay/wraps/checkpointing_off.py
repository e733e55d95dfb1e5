"""Wrap "checkpointing-off": nothing is computed again in the backward pass; all is kept."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from .. import targets, traced

TARGET = "torch.utils.checkpoint.checkpoint"
_NOT_THE_FUNCTIONS = ("use_reentrant", "preserve_rng_state")


def lay(number: int, edit: Any) -> targets.Undo:  # noqa: ARG001 - the form of every wrap
    """Lay an edit; give what takes it off."""
    told = traced.Told(number, TARGET, "recomputed", "kept")
    made = functools.partial(_replace, told)
    undos = [targets.when_there(number, name, made) for name in (TARGET, TARGET + "_sequential")]
    return functools.partial(targets.undo_all, [*undos, told.look])


def _replace(told: traced.Told, owner: Any, name: str) -> targets.Undo:
    make = _calling if name == "checkpoint" else _calling_all
    return targets.replace(owner, name, functools.partial(make, told))


def _calling(told: traced.Told, original: Any, switch: targets.Switch) -> Any:
    ours = {*_NOT_THE_FUNCTIONS, *_keywords(original)}

    @functools.wraps(original)
    def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules["torch"]
        if not switch.on or _cuts(torch, told, args, kwargs.get("use_reentrant")):
            return original(function, *args, **kwargs)
        if torch.is_grad_enabled():
            told.now()
        left = {name: value for name, value in kwargs.items() if name not in ours}
        return function(*args, **left)

    return checkpoint


def _calling_all(told: traced.Told, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def checkpoint_sequential(
        functions: Any,
        segments: Any,
        input: Any,  # noqa: A002 - torch's name
        use_reentrant: Any = None,
        **kwargs: Any,
    ) -> Any:
        torch = sys.modules["torch"]
        if not switch.on or _cuts(torch, told, (input,), use_reentrant):
            return original(functions, segments, input, use_reentrant, **kwargs)
        if torch.is_grad_enabled():
            told.now()
        called = functions.children() if isinstance(functions, torch.nn.Sequential) else functions
        for function in called:
            input = function(input)  # noqa: A001 - torch's name
        return input

    return checkpoint_sequential


def _keywords(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]


def _cuts(torch: Any, told: traced.Told, values: tuple, reentrant: Any) -> bool:
    """Tell whether a call gives no gradients for want of an input with any (reentrant only).

    Without the checkpoint it would give some: another training. No word on it means reentrant.
    """
    if reentrant is False or not torch.is_grad_enabled():
        return False
    if any(isinstance(one, torch.Tensor) and one.requires_grad for one in values):
        return False
    told.not_now("a reentrant checkpoint without inputs that need gradients")
    return True
