"""Modules that are called twice with the same tensors in a step, once of it without gradients.

While a window with stacks is open, torch reports each call of a module. Those that no other module
makes are compared: the same module with the same parameters, in the same mode (what is set to
evaluate first is an evaluation, which is marked elsewhere), and the same arguments, tensors
unchanged. What cannot be compared is no repeat. Tensors are not kept alive. Once something is given
to a compiler nothing is asked: it would compile hooks of all modules, too.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from .. import patching, recorder, stepping
from ..hooks import forwards
from ..stacks import locations

_NOUN = "repeat"
_CALLS = "torch/nn/modules/module.py"  # what calls a module's forward
_MAX_CALLS = 64  # calls in a step: more are a loop over something else
_DEEP = 100  # frames
_PLAIN = (bool, int, float, str, type(None))
_SWITCHES = "disable_adapter"  # a module that computes something else while that is entered


class Repeats:
    """The calls of outermost modules while a window is open."""

    def __init__(self, hooks: Any) -> None:
        self._thread = threading.get_ident()
        self._step = stepping.steps()
        self._calls: list[tuple[Any, ...]] = []
        self._met: dict[tuple, tuple[str, set[int], int]] = {}
        self._handle = hooks.register_module_forward_pre_hook(self._note_call)
        forwards.before_compiling(self._handle.remove)

    def end(self) -> None:
        """Look no more, and write down what was seen."""
        self._handle.remove()
        self._calls.clear()
        repeats, self._met = self._met, {}
        for location, (kind, steps, calls) in repeats.items():
            recorder.fact(_NOUN, location, {"class": kind, "calls": calls / len(steps)}, location)

    @patching.guard("repeated passes")
    def _note_call(self, module: Any, args: tuple) -> None:
        if threading.get_ident() != self._thread:
            return
        keywords = _keywords()
        if keywords is None or hasattr(type(module), _SWITCHES):
            return
        if self._step != stepping.steps():
            self._step = stepping.steps()
            self._calls.clear()
        torch = sys.modules["torch"]
        with torch._C.DisableTorchFunctionSubclass():
            marks = _marks(torch, [*args, *(keywords[name] for name in sorted(keywords))])
        if marks is None or len(self._calls) >= _MAX_CALLS:
            return
        graphed, location = torch.is_grad_enabled(), locations.users_line()
        state = (bool(module.training), tuple(sorted(keywords)), _versions(torch, module))
        for reference, before, had_graph, old_state, old_location in self._calls:
            is_same = reference() is module and old_state == state and _are_same(before, marks)
            if is_same and had_graph != graphed and location != old_location:
                self._note_repeat(module, location if had_graph else old_location)
                break
        self._calls.append((weakref.ref(module), marks, graphed, state, location))

    def _note_repeat(self, module: Any, location: Any) -> None:
        if location is not None:
            kind = type(module)
            name = f"{kind.__module__}.{kind.__qualname__}"
            _, steps, calls = self._met.get(location, (name, set(), 0))
            self._met[location] = (name, steps | {self._step}, calls + 1)


def _marks(torch: Any, values: list[Any]) -> list[Any] | None:
    """Return by what arguments are known again; None: by nothing, or none of them is a tensor."""
    marks: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.is_inference():
                return None
            marks.append((weakref.ref(value), value._version))
        elif type(value) in _PLAIN:
            marks.append((None, value))
        else:
            return None
    return marks if any(reference is not None for reference, _ in marks) else None


def _are_same(before: list[Any], now: list[Any]) -> bool:
    """Return whether arguments are those that were given before, and hold the same."""
    return len(before) == len(now) and all(
        _marked_tensor(old) is _marked_tensor(new)
        and type(old[1]) is type(new[1])
        and old[1] == new[1]
        for old, new in zip(before, now)
    )


def _marked_tensor(mark: Any) -> Any:
    """Return the tensor that a mark is of, None of another value; of one that is gone, the mark."""
    if mark[0] is None:
        return None
    tensor = mark[0]()
    return mark if tensor is None else tensor


def _versions(torch: Any, module: Any) -> int:
    """Sum how often the parameters of a module were written to."""
    return sum(parameter._version for parameter in torch.nn.Module.parameters(module))


def _keywords() -> dict[str, Any] | None:
    """Return the keyword arguments of the reported call; None: another module makes it."""
    frame, keywords = sys._getframe(1), None
    for _ in range(_DEEP):
        if frame is None:
            return keywords
        code = frame.f_code
        if code.co_filename.endswith(_CALLS) and code.co_name == "_call_impl":
            if keywords is not None:
                return None
            keywords = frame.f_locals.get("kwargs")
        frame = frame.f_back
    return None


def watch() -> Repeats | None:
    """Begin to look at calls of modules; ``None`` where that is not possible, or not harmless."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    hooks = sys.modules.get("torch.nn.modules.module")
    torch = sys.modules.get("torch")
    if hooks is None or not hasattr(hooks, "register_module_forward_pre_hook"):
        return None
    if not hasattr(getattr(torch, "_C", None), "DisableTorchFunctionSubclass"):
        return None
    if forwards.has_compiled() or (counters and counters.get("frames")):
        return None
    return Repeats(hooks)
