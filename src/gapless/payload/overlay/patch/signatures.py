"""Where a call has one of its arguments, and how it gets another value there."""

from __future__ import annotations

import inspect
from typing import Any

_POSITIONS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Argument:
    """One argument of a function, and the value that it is to have.

    Raises ``ValueError`` if the function has none of this name.
    """

    __slots__ = ("default", "name", "position", "value")

    def __init__(self, function: Any, name: str, value: Any = None) -> None:
        self.name, self.value = name, value
        self.position: int | None = None
        self.default: Any = None
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):  # a function in C without a signature: by keyword alone
            return
        parameter = parameters.get(self.name)
        kinds = [candidate.kind for candidate in parameters.values()]
        if parameter is None and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ValueError(f"there is no argument {self.name!r}")
        if parameter is not None and parameter.kind in _POSITIONS:
            self.position = list(parameters).index(self.name)
        if parameter is not None and parameter.default is not inspect.Parameter.empty:
            self.default = parameter.default

    def get(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a call has there: the default, where it gave none."""
        if self.position is not None and self.position < len(args):
            return args[self.position]
        return kwargs.get(self.name, self.default)

    def put(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call with this one set."""
        position = self.position
        if position is not None and position < len(args):
            return (*args[:position], self.value, *args[position + 1 :]), kwargs
        return args, {**kwargs, self.name: self.value}
