"""Modules that are called twice with the same tensors in a step, once of it without gradients.

In the same mode: what is told to evaluate first is an evaluation, of which others tell.

While a window with stacks is open, torch tells of each call of a module. Those that no other module
makes are compared: the same module, and the same tensors, unchanged. Tensors are not kept alive.
Where something was compiled nothing is asked, since hooks of all modules would compile it anew.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

from .. import patching, places, recorder, stepping

_NOUN = "repeat"
_CALLS = "torch/nn/modules/module.py"  # what calls a module's forward
_MOST = 64  # calls in a step: more are a loop over something else
_DEEP = 100  # frames


class Repeats:
    """The calls of outermost modules while a window is open."""

    def __init__(self, hooks: Any) -> None:
        self._thread = threading.get_ident()
        self._step = stepping.steps()
        self._calls: list[tuple[Any, list[Any], tuple[bool, bool], Any]] = []
        self._met: dict[tuple, tuple[Any, set[int], int]] = {}
        self._handle = hooks.register_module_forward_pre_hook(self._called)

    def end(self) -> None:
        """Look no more, and write down what was seen."""
        self._handle.remove()
        self._calls.clear()
        for place, (kind, steps, calls) in self._met.items():
            recorder.fact(_NOUN, place, {"class": kind, "calls": calls / len(steps)}, place)
        self._met.clear()

    @patching.guarded("repeated passes")
    def _called(self, module: Any, args: tuple) -> None:
        if threading.get_ident() != self._thread or _is_inner():
            return
        if self._step != stepping.steps():
            self._step = stepping.steps()
            self._calls.clear()
        torch = sys.modules["torch"]
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        counted = not any(one.is_inference() for one in tensors)
        if not tensors or not counted or len(self._calls) >= _MOST:
            return
        graphed, trains = torch.is_grad_enabled(), bool(module.training)
        for known, given, (had_graph, trained), place in self._calls:
            differs = had_graph != graphed and trained == trains
            if known() is module and differs and _are(given, tensors):
                self._repeated(module, places.users_line() if had_graph else place)
                break
        marks = [(weakref.ref(one), one._version) for one in tensors]
        self._calls.append((weakref.ref(module), marks, (graphed, trains), places.users_line()))

    def _repeated(self, module: Any, place: Any) -> None:
        if place is not None:
            kind = type(module)
            name = f"{kind.__module__}.{kind.__qualname__}"
            _, steps, calls = self._met.get(place, (name, set(), 0))
            self._met[place] = (name, steps | {self._step}, calls + 1)


def _are(given: list[Any], tensors: list[Any]) -> bool:
    """Tell whether tensors are those that were given before, and hold the same."""
    return len(given) == len(tensors) and all(
        reference() is one and version == one._version
        for (reference, version), one in zip(given, tensors)
    )


def _is_inner() -> bool:
    """Tell whether another module's call is around the one that is told of."""
    frame, inside = sys._getframe(1), 0
    for _ in range(_DEEP):
        if frame is None:
            return False
        inside += frame.f_code.co_filename.endswith(_CALLS) and frame.f_code.co_name == "_call_impl"
        if inside > 1:
            return True
        frame = frame.f_back
    return True


def watch() -> Repeats | None:
    """Begin to look at calls of modules; ``None`` where that is not possible, or not harmless."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    hooks = sys.modules.get("torch.nn.modules.module")
    if hooks is None or not hasattr(hooks, "register_module_forward_pre_hook"):
        return None
    if counters and counters.get("frames"):
        return None
    return Repeats(hooks)
