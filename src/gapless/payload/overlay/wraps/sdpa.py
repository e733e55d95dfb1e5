"""Wrap "sdpa": attention (``scaled_dot_product_attention``) uses one backend wherever it can.

The others are switched off, but for "math", which can do every call. Which backend torch chose is
asked at the first calls: a trial in which it was another one counts for nothing.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ... import compiling
from .. import targets, traced

TARGET = "torch.nn.functional.scaled_dot_product_attention"
_NUMBERS = {"math": 0, "flash": 1, "efficient": 2, "cudnn": 3}  # torch.nn.attention.SDPBackend
_NAMES = {number: name for name, number in _NUMBERS.items()}
_SWITCHES = {"efficient": "mem_efficient"}  # as torch.backends.cuda calls them
_ASKED = 64  # calls


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; options: "backend". Give what takes it off."""
    backend = edit["options"]["backend"]
    if backend not in _NUMBERS:
        raise ValueError(f"no backend {backend!r}: there are {', '.join(_NUMBERS)}")
    return targets.when_there(number, TARGET, functools.partial(_begin, number, backend))


def _begin(number: int, backend: str, owner: Any, name: str) -> targets.Undo:
    before = _enabled()
    _enable({one: one in {backend, "math"} for one in before})
    old = ", ".join(one for one, on in before.items() if on)
    told = traced.Told(number, TARGET, old, backend)
    replaced = targets.replace(owner, name, functools.partial(_asking, told))
    return functools.partial(targets.undo_all, [lambda: _enable(before), told.look, replaced])


def _enabled() -> dict[str, bool]:
    """Give which backends torch may use, of those that it has."""
    switches = sys.modules["torch"].backends.cuda
    asked = {
        one: getattr(switches, f"{_SWITCHES.get(one, one)}_sdp_enabled", None) for one in _NUMBERS
    }
    return {one: ask() for one, ask in asked.items() if ask is not None}


def _enable(wanted: dict[str, bool]) -> None:
    switches = sys.modules["torch"].backends.cuda
    for one, on in wanted.items():
        getattr(switches, f"enable_{_SWITCHES.get(one, one)}_sdp")(on)


def _asking(told: traced.Told, original: Any, switch: targets.Switch) -> Any:
    torch, compiles = sys.modules["torch"], compiling.asker()
    calls = [0]

    @functools.wraps(original)
    def attend(*args: Any, **kwargs: Any) -> Any:
        if switch.on and (compiles() or asked(args, kwargs)):
            told.now()
        return original(*args, **kwargs)

    def asked(args: tuple, kwargs: dict) -> bool:
        """Tell whether torch uses the backend for such a call."""
        if calls[0] >= _ASKED:
            return True
        calls[0] += 1
        chosen = torch._fused_sdp_choice(*args, **kwargs)
        if chosen != _NUMBERS[told.new]:
            other = _NAMES.get(chosen, str(chosen))
            told.not_now(f"torch uses {other} for a call that {told.new} cannot do")
        return chosen == _NUMBERS[told.new]

    return attend
