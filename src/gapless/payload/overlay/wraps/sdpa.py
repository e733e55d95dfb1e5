"""Wrap "sdpa": attention (``scaled_dot_product_attention``) uses one backend wherever it can.

The others are switched off, but for "math", which can do every call. Which backend torch chose is
asked at the first calls: a trial in which it was another one counts for nothing.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ... import compiling
from .. import traced
from ..patch import targets

TARGET = "torch.nn.functional.scaled_dot_product_attention"
_NUMBERS = {"math": 0, "flash": 1, "efficient": 2, "cudnn": 3}  # torch.nn.attention.SDPBackend
_NAMES = {number: name for name, number in _NUMBERS.items()}
_SWITCHES = {"efficient": "mem_efficient"}  # as torch.backends.cuda calls them
_MAX_CHECKED_CALLS = 64  # calls


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; options: "backend". Return what reverts it."""
    backend = edit["options"]["backend"]
    if backend not in _NUMBERS:
        raise ValueError(f"no backend {backend!r}: there are {', '.join(_NUMBERS)}")
    return targets.on_target(number, TARGET, functools.partial(_begin, number, backend))


def _begin(number: int, backend: str, owner: Any, name: str) -> targets.Undo:
    before = _read_enabled()
    _enable({candidate: candidate in {backend, "math"} for candidate in before})
    old = ", ".join(candidate for candidate, on in before.items() if on)
    traced_edit = traced.TracedEdit(number, TARGET, old, backend)
    undo = targets.replace(owner, name, functools.partial(_wrap_attention, traced_edit))
    return functools.partial(targets.undo_all, [lambda: _enable(before), traced_edit.look, undo])


def _read_enabled() -> dict[str, bool]:
    """Return which backends torch may use, of those that it has."""
    switches = sys.modules["torch"].backends.cuda
    getters = {
        backend: getattr(switches, f"{_SWITCHES.get(backend, backend)}_sdp_enabled", None)
        for backend in _NUMBERS
    }
    return {backend: ask() for backend, ask in getters.items() if ask is not None}


def _enable(enabled_by_name: dict[str, bool]) -> None:
    switches = sys.modules["torch"].backends.cuda
    for backend, on in enabled_by_name.items():
        getattr(switches, f"enable_{_SWITCHES.get(backend, backend)}_sdp")(on)


def _wrap_attention(traced_edit: traced.TracedEdit, original: Any, switch: targets.Switch) -> Any:
    torch, compiles = sys.modules["torch"], compiling.get_is_compiling()
    calls = [0]

    @functools.wraps(original)
    def attend(*args: Any, **kwargs: Any) -> Any:
        if switch.on and (compiles() or uses_backend(args, kwargs)):
            traced_edit.now()
        return original(*args, **kwargs)

    def uses_backend(args: tuple, kwargs: dict) -> bool:
        """Return whether torch uses the backend for such a call."""
        if calls[0] >= _MAX_CHECKED_CALLS:
            return True
        calls[0] += 1
        choice = torch._fused_sdp_choice(*args, **kwargs)
        if choice != _NUMBERS[traced_edit.new]:
            choice_name = _NAMES.get(choice, str(choice))
            traced_edit.not_now(
                f"torch uses {choice_name} for a call that {traced_edit.new} cannot do"
            )
        return choice == _NUMBERS[traced_edit.new]

    return attend
