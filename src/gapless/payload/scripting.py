"""Let ``torch.jit`` take a function of ours for the one that it stands in for.

Its compiler knows some functions by identity (``torch.autograd.grad`` is ``aten::grad``). One that
it does not know it compiles, and ours, with ``*args``, it cannot: the user's script would fail.
"""

from __future__ import annotations

import sys
from typing import Any

from .process_state import keep_fields

_BUILTINS = "torch.jit._builtins"
_named = keep_fields(replacements=[])  # of ours, that the compiler knows


def stand_in(original: Any, replacement: Any) -> None:
    """Name ours as what the original is named, if it is."""
    operators = _operators()
    name = next((name for function, name in operators if function is original), None)
    if name is not None and replacement is not original:
        _named.replacements.append(replacement)
        operators.append((replacement, name))
        if _table() is not None:
            _table()[id(replacement)] = name


def forget(replacement: Any) -> None:
    """Name ours no more."""
    if not any(function is replacement for function in _named.replacements):
        return
    _named.replacements[:] = [
        function for function in _named.replacements if function is not replacement
    ]
    _operators()[:] = [pair for pair in _operators() if pair[0] is not replacement]
    if _table() is not None:
        _table().pop(id(replacement), None)


def _operators() -> Any:
    """Return what the table is made of when the first function is compiled."""
    return getattr(sys.modules.get(_BUILTINS), "_builtin_ops", [])


def _table() -> Any:
    return getattr(sys.modules.get(_BUILTINS), "_builtin_table", None)
