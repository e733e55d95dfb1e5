"""Mark forward passes of outermost modules while nothing trains: inference, generation.

``Module.__call__`` is replaced only as long as no optimizer is made and nothing passes back: a
training pays nothing for it. Before anything is compiled it is put back, and while the compiler
is imported, which remembers what it finds there.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

from ... import wire
from .. import imports, patching, places, recorder, stepping
from . import calls

_COMPILER = "torch._dynamo.utils"
_NAME = "__call__"
_FIRST = 2  # calls of a module before it is marked: one is no loop
_MOST = 1000  # modules that are known


class _Known:
    """An outermost module: its number (none: it is no model), its calls, those not marked yet."""

    __slots__ = ("calls", "number", "reference", "waiting")

    def __init__(self, number: int | None, reference: Any) -> None:
        self.number, self.reference, self.calls = number, reference, 0
        self.waiting: list[tuple[int, int]] = []


_state: dict[str, Any] = {"busy": False, "in": False, "over": False, "compiled": False}
_before_compiling: list[Any] = []
_known: dict[int, _Known] = {}  # by id of a module


def install() -> None:
    """Wait for torch, whole."""
    _forget()
    _state.update({"in": False, "over": False})
    imports.when_imported("torch", _torch)
    recorder.on_child(_forget)


def calls_of_modules() -> int:
    """Give how many calls of outermost modules were seen."""
    return sum(known.calls for known in _known.copy().values())


def _forget() -> None:
    _state["busy"] = False
    _known.clear()


def _torch(torch: Any) -> None:
    patching.replace(torch.optim.Optimizer, "__init__", patching.around("forwards", _leave, None))
    for owner in (torch, torch.nn.Module):
        if hasattr(owner, "compile"):  # since torch 2.0, and 2.1
            patching.replace(owner, "compile", calls.around("forwards", _compiles))
    if _COMPILER not in sys.modules:
        imports.when_sought(_COMPILER, _make_room)
        imports.when_imported(_COMPILER, _enter)
    _enter()


def _enter(_module: Any = None) -> None:
    if not (_state["over"] or _state["in"]):
        _state["in"] = True
        make = calls.unnested(_state, _wanted, _passed)
        patching.replace(sys.modules["torch"].nn.Module, _NAME, make)


def _make_room() -> None:
    if _state["in"]:
        _state["in"] = False
        patching.put_back(sys.modules["torch"].nn.Module, _NAME)


def _leave(_args: Any = None, _kwargs: Any = None) -> None:
    """Look at no more calls: something trains, or is going to be compiled."""
    _state["over"] = True
    _make_room()


def _compiles(_args: Any = None, _kwargs: Any = None) -> None:
    _state["compiled"] = True
    for action in _before_compiling:
        action()
    _leave()


def compiled() -> bool:
    """Tell whether something was given to the compiler."""
    return _state["compiled"]


def before_compiling(action: Any) -> None:
    """Have something done once something is given to the compiler."""
    _before_compiling[:] = [action]


def _wanted() -> bool:
    return not _state["over"]


@patching.guarded("forward passes")
def _passed(args: tuple, start: int, end: int) -> None:
    module = args[0]
    if stepping.trains():
        _leave()
        return
    known = _known.get(id(module))
    if known is None:
        if len(_known) >= _MOST or recorder.is_worker():
            return
        known = _known[id(module)] = _met(module)
    if known.number is None:
        return
    known.calls += 1
    known.waiting.append((start, end))
    if known.calls > _FIRST:  # a process that calls it twice need not be recorded
        for span in known.waiting:
            recorder.mark(wire.FORWARD, *span, known.number)
        known.waiting.clear()
        stepping.passed_forward(known.number, start, end)


def _met(module: Any) -> _Known:
    """Give what is known of a module; one without parameters (a transform, a loss) is no model."""
    reference = weakref.ref(module, functools.partial(_known.pop, id(module)))
    if not _has_parameters(module):
        return _Known(None, reference)
    kind = type(module)
    values = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    return _Known(recorder.fact("module", module, values, places.users_line(1)), reference)


def _has_parameters(module: Any) -> bool:
    """Tell whether a module has any; its own ``parameters`` may be the user's, and is not asked."""
    parts = [module]
    for part in parts:
        values = vars(part)
        if any(one is not None for one in values.get("_parameters", {}).values()):
            return True
        parts += [one for one in values.get("_modules", {}).values() if one is not None]
    return False
