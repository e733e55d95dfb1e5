"""SetArgument: calls of a function or class get our value for one argument."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from . import loaders, targets, telling, where

_POSITIONS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Argument:
    """One argument of a function, and the value that an edit sets it to."""

    __slots__ = ("default", "name", "number", "position", "target", "value")

    def __init__(self, number: int, edit: Any, function: Any) -> None:
        self.number, self.name, self.value = number, edit["name"], edit["value"]
        self.target = f"{edit['target']}.{self.name}"
        self.position: int | None = None
        self.default: Any = None
        self._find(function)

    def _find(self, function: Any) -> None:
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):  # a function in C that does not tell: by keyword alone
            return
        found = parameters.get(self.name)
        kinds = [one.kind for one in parameters.values()]
        if found is None and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ValueError(f"there is no argument {self.name!r}")
        if found is not None and found.kind in _POSITIONS:
            self.position = list(parameters).index(self.name)
        if found is not None and found.default is not inspect.Parameter.empty:
            self.default = found.default

    def get(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give what a call has there: the default, where it gave none."""
        if self.position is not None and self.position < len(args):
            return args[self.position]
        return kwargs.get(self.name, self.default)

    def put(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Give the arguments of a call with this one set."""
        at = self.position
        if at is not None and at < len(args):
            return (*args[:at], self.value, *args[at + 1 :]), kwargs
        return args, {**kwargs, self.name: self.value}


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
    if not isinstance(found, type):
        return targets.replace(owner, name, functools.partial(_edited, number, edit, None))
    if not hasattr(found.__init__, "__code__"):
        raise TypeError("its construction is not Python's")
    fit = loaders.fitting(found)
    return targets.replace(found, "__init__", functools.partial(_edited, number, edit, fit))


def _edited(
    number: int, edit: Any, fit: Any, original: Callable[..., Any], switch: targets.Switch
) -> Callable[..., Any]:
    """Give a function that gets our value; ``fit`` makes other arguments go with it."""
    argument = Argument(number, edit, original)
    meant = where.matcher(edit.get("where"))

    @functools.wraps(original)
    def edited(*args: Any, **kwargs: Any) -> Any:
        if not switch.on or not meant():
            return original(*args, **kwargs)
        old = argument.get(args, kwargs)
        found = argument.put(args, kwargs) if fit is None else fit(argument, args, kwargs)
        if found is None:
            return original(*args, **kwargs)
        telling.told(number, argument.target, old, argument.value)
        return original(*found[0], **found[1])

    return edited
