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
from .. import declare, imports, patching, recorder, stepping
from ..process_state import keep
from ..stacks import locations
from . import calls

_COMPILER = "torch._dynamo.utils"
_NAME = "__call__"
_UNMARKED_CALLS = 2  # calls of a module before it is marked: one is no loop
_MAX_MODULES = 1000  # modules that are known


class _OutermostModule:
    """An outermost module: its number (none: it is no model), its calls, those not marked yet."""

    __slots__ = ("calls", "number", "reference", "waiting")

    def __init__(self, number: int | None, reference: Any) -> None:
        self.number, self.reference, self.calls = number, reference, 0
        self.waiting: list[tuple[int, int]] = []


class _Forwards:
    """The outermost modules, and whether their calls are marked."""

    def __init__(self) -> None:
        self.is_over = self.has_compiled = False
        self.replacement: Any = None  # of ``Module.__call__``
        self.before_compiling: Any = None
        self.outermost: dict[int, _OutermostModule] = {}  # by id of a module
        self.begin()

    def begin(self) -> None:
        """Know of no module; another log begins."""
        self.is_busy = False  # a call is under way
        self.outermost.clear()


_state = keep(_Forwards())


@declare.at_install
def _begin_anew() -> None:
    _state.is_over, _state.replacement = False, None


def calls_of_modules() -> int:
    """Return how many calls of outermost modules were seen."""
    return sum(module.calls for module in _state.outermost.copy().values())


@declare.hook("torch")
def _watch_torch(torch: Any) -> None:
    patching.replace(torch.optim.Optimizer, "__init__", patching.around("forwards", _leave, None))
    for owner in (torch, torch.nn.Module):
        if hasattr(owner, "compile"):  # since torch 2.0, and 2.1
            patching.replace(owner, "compile", calls.around("forwards", _note_compiling))
    if _COMPILER not in sys.modules:
        imports.when_requested(_COMPILER, _make_room)
        imports.when_imported(_COMPILER, _enter)
    _enter()


def _enter(_module: Any = None) -> None:
    if not (_state.is_over or _state.replacement):
        make = calls.around_unnested(_state, _is_wanted, _note_call)
        _state.replacement = patching.replace(sys.modules["torch"].nn.Module, _NAME, make)


def _make_room() -> None:
    replacement, _state.replacement = _state.replacement, None
    if replacement is not None:
        replacement.undo()


def _leave(_args: Any = None, _kwargs: Any = None) -> None:
    """Look at no more calls: something trains, or is going to be compiled."""
    _state.is_over = True
    _make_room()


def _note_compiling(_args: Any = None, _kwargs: Any = None) -> None:
    _state.has_compiled = True
    if _state.before_compiling is not None:
        _state.before_compiling()
    _leave()


def has_compiled() -> bool:
    """Return whether something was given to the compiler."""
    return _state.has_compiled


def before_compiling(action: Any) -> None:
    """Have something done once something is given to the compiler."""
    _state.before_compiling = action


def _is_wanted() -> bool:
    return not _state.is_over


@patching.guard("forward passes")
def _note_call(args: tuple, start: int, end: int) -> None:
    module = args[0]
    if stepping.trains():
        _leave()
        return
    entry = _state.outermost.get(id(module))
    if entry is None:
        if len(_state.outermost) >= _MAX_MODULES or recorder.is_worker():
            return
        entry = _state.outermost[id(module)] = _register_module(module)
    if entry.number is None:
        return
    entry.calls += 1
    entry.waiting.append((start, end))
    if entry.calls > _UNMARKED_CALLS:  # a process that calls it twice need not be recorded
        for span in entry.waiting:
            recorder.mark(wire.FORWARD, *span, entry.number)
        entry.waiting.clear()
        stepping.note_forward(entry.number, start, end)


def _register_module(module: Any) -> _OutermostModule:
    """Return what is known of a module; one without parameters (transform, loss) is no model."""
    reference = weakref.ref(module, functools.partial(_state.outermost.pop, id(module)))
    if not _has_parameters(module):
        return _OutermostModule(None, reference)
    kind = type(module)
    values = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    return _OutermostModule(
        recorder.fact("module", module, values, locations.users_line(1)), reference
    )


def _has_parameters(module: Any) -> bool:
    """Return whether a module has any; its ``parameters`` may be the user's and is not called."""
    modules = [module]
    for current in modules:
        attributes = vars(current)
        if any(parameter is not None for parameter in attributes.get("_parameters", {}).values()):
            return True
        modules += [child for child in attributes.get("_modules", {}).values() if child is not None]
    return False
