"""SetArgument: calls of a function or class get our value for one argument."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable

from . import loaders
from .patch import edit_counters, targets, where
from .patch.signatures import Argument


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    edit_counters.register_edit(number, f"{edit['target']}.{edit['name']}")
    undos = [
        targets.on_target(number, target, functools.partial(_replace, number, edit))
        for target in loaders.expand_target(edit["target"])
    ]
    return functools.partial(targets.undo_all, undos)


def _replace(number: int, edit: Any, owner: Any, name: str) -> targets.Undo:
    target = getattr(owner, name)
    make = functools.partial(_make_edited, number, edit)
    if not isinstance(target, type):
        return targets.replace(owner, name, make)
    if loaders.is_loader_class(target):
        return loaders.apply(number, edit, target)
    if not hasattr(target.__init__, "__code__"):
        raise TypeError("its construction is not Python's")
    return targets.replace(target, "__init__", functools.partial(make, again=True))


def _make_edited(
    number: int,
    edit: Any,
    original: Callable[..., Any],
    switch: targets.Switch,
    *,
    again: bool = False,
) -> Callable[..., Any]:
    """Return a function that gets our value.

    ``again``: what it refuses (``fused`` on such a device) is done as it was written, and recorded.
    """
    argument = Argument(original, edit["name"], edit["value"])
    is_meant = where.matcher(edit.get("where"))
    target = f"{edit['target']}.{edit['name']}"

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or not is_meant():
            return original(*args, **kwargs)
        if again:  # ``model.parameters()`` can be gone through once
            args = tuple(map(_materialise, args))
            kwargs = {key: _materialise(value) for key, value in kwargs.items()}
        old = argument.get(args, kwargs)
        new_args, new_kwargs = argument.put(args, kwargs)
        try:
            result = original(*new_args, **new_kwargs)
        except (TypeError, ValueError, RuntimeError) as error:
            if not again:
                raise
            edit_counters.record_refusal(number, target, repr(error)[:300])
            return original(*args, **kwargs)
        edit_counters.record_effect(number, target, old, argument.value)
        if again and argument.name == "fused":
            check(number, target, args[0], old)
        return result

    return call


def _materialise(value: Any) -> Any:
    return list(value) if isinstance(value, types.GeneratorType) else value


def check(number: int, target: str, optimizer: Any, old: Any) -> None:
    """Look at the tensors before the first step; where they do not fit, step as it was written."""
    fits = getattr(sys.modules["torch.optim.optimizer"], "_device_dtype_check_for_fused", None)
    if fits is None or not hasattr(optimizer, "register_step_pre_hook"):
        return
    looked = []  # a hook must not be removed while hooks are called

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if looked:
            return
        looked.append(True)
        try:
            for group in optimizer.param_groups:
                for tensor in group["params"]:
                    fits(tensor)
        except RuntimeError as error:
            for group in optimizer.param_groups:
                group["fused"] = old
            optimizer.defaults["fused"] = old
            edit_counters.record_refusal(number, target, str(error)[:300])

    optimizer.register_step_pre_hook(before)
