"""Declare hooks beside what they do: by the module that they wait for, or the moment of a process.

``install`` has them wait, in the order in which they stand in their module::

    @declare.hook("torch.optim.optimizer")
    def _watch(module: Any) -> None: ...
"""

from __future__ import annotations

import types
from typing import Any, Callable, TypeVar

from . import imports

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Install = Callable[[Any, Any], None]  # (recorder, function)
_KEY = "gapless_installs"


def hook(*modules: str) -> Callable[[_Function], _Function]:
    """Have a function called with each of the modules, once that is imported."""

    def install(_recorder: Any, function: Any) -> None:
        for module in modules:
            imports.when_imported(module, function)

    return _declare(install)


def _declare(install: _Install) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        vars(function).setdefault(_KEY, []).append(install)
        return function

    return decorate


at_edge = _declare(lambda recorder, function: recorder.on_edge(function))
at_seldom_edge = _declare(lambda recorder, function: recorder.on_edge(function, seldom=True))
at_first = _declare(lambda recorder, function: recorder.on_first(function))
at_stop = _declare(lambda recorder, function: recorder.on_stop(function))
at_install = _declare(lambda _recorder, function: function())


def install(module: Any, recorder: Any) -> None:
    """Have all hooks of a module wait."""
    for function in tuple(vars(module).values()):
        if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
            for action in vars(function).get(_KEY, ()):
                action(recorder, function)
