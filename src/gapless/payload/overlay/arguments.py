"""SetArgument: calls of a function or class get our value for one argument."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

from . import fused, loaders, targets, telling, where
from .signatures import Argument


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; give what takes it off."""
    telling.laid(number, f"{edit['target']}.{edit['name']}")
    undos = [
        targets.when_there(number, target, functools.partial(_replace, number, edit))
        for target in loaders.also(edit["target"])
    ]
    return functools.partial(targets.undo_all, undos)


def _replace(number: int, edit: Any, owner: Any, name: str) -> targets.Undo:
    found = getattr(owner, name)
    make = functools.partial(_edited, number, edit)
    if not isinstance(found, type):
        return targets.replace(owner, name, make)
    if loaders.is_one(found):
        return loaders.lay(number, edit, found)
    if not hasattr(found.__init__, "__code__"):
        raise TypeError("its construction is not Python's")
    return targets.replace(found, "__init__", functools.partial(make, again=True))


def _edited(
    number: int,
    edit: Any,
    original: Callable[..., Any],
    switch: targets.Switch,
    *,
    again: bool = False,
) -> Callable[..., Any]:
    """Give a function that gets our value.

    ``again``: what it refuses (``fused`` on such a device) is done as it was written, and told.
    """
    argument = Argument(original, edit["name"], edit["value"])
    meant = where.matcher(edit.get("where"))
    target = f"{edit['target']}.{edit['name']}"

    @functools.wraps(original)
    def edited(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or not meant():
            return original(*args, **kwargs)
        if again:  # ``model.parameters()`` can be gone through once
            args = tuple(map(_kept, args))
            kwargs = {key: _kept(value) for key, value in kwargs.items()}
        old = argument.get(args, kwargs)
        ours, ours_by_name = argument.put(args, kwargs)
        try:
            result = original(*ours, **ours_by_name)
        except (TypeError, ValueError, RuntimeError) as error:
            if not again:
                raise
            telling.refused(number, target, repr(error)[:300])
            return original(*args, **kwargs)
        telling.told(number, target, old, argument.value)
        if again and argument.name == "fused":
            fused.check(number, target, args[0], old)
        return result

    return edited


def _kept(value: Any) -> Any:
    return list(value) if isinstance(value, types.GeneratorType) else value
