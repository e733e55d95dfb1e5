"""Let ``torch.jit`` take a function of ours for the one that it stands in for.

Its compiler knows some functions by identity (``torch.autograd.grad`` is ``aten::grad``). One that
it does not know it compiles, and ours, with ``*args``, it cannot: the user's script would fail.
"""

from __future__ import annotations

import sys
from typing import Any

_BUILTINS = "torch.jit._builtins"
_ours: list[Any] = []  # that are named


def stand_in(original: Any, ours: Any) -> None:
    """Name ours as what the original is named, if it is."""
    operators = _operators()
    name = next((name for function, name in operators if function is original), None)
    if name is not None and ours is not original:
        _ours.append(ours)
        operators.append((ours, name))
        if _table() is not None:
            _table()[id(ours)] = name


def forget(ours: Any) -> None:
    """Name ours no more."""
    if not any(function is ours for function in _ours):
        return
    _ours[:] = [function for function in _ours if function is not ours]
    _operators()[:] = [pair for pair in _operators() if pair[0] is not ours]
    if _table() is not None:
        _table().pop(id(ours), None)


def _operators() -> Any:
    """Give what the table is made of when the first function is compiled."""
    return getattr(sys.modules.get(_BUILTINS), "_builtin_ops", [])


def _table() -> Any:
    return getattr(sys.modules.get(_BUILTINS), "_builtin_table", None)
