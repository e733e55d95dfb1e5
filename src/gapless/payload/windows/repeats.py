"""Modules that are called twice in a step, once of it without gradients, and to no avail.

Either with the same tensors, or so that the function that calls drops the result. While a window
with stacks is open, torch reports each call of a module. Those that no other module makes are
compared: the same module with the same parameters, in the same mode (what is set to evaluate first
is an evaluation, which is marked elsewhere), and the same arguments, tensors unchanged. What cannot
be compared is no repeat. Tensors are not kept alive. Once something is given to a compiler nothing
is asked: it would compile hooks of all modules, too.
"""

from __future__ import annotations

import dis
import sys
import threading
import weakref
from typing import Any, NamedTuple

from .. import patching, recorder, stepping
from ..hooks import forwards
from ..stacks import locations

_NOUN = "repeat"
_CALLS = "torch/nn/modules/module.py"  # what calls a module's forward
_MAX_CALLS = 64  # calls in a step: more are a loop over something else
_DEEP = 100  # frames
_PLAIN = (bool, int, float, str, type(None))
_STORES = {"STORE_FAST": 1, "STORE_FAST_LOAD_FAST": 1, "STORE_FAST_STORE_FAST": 2}
_SWITCHES = "disable_adapter"  # a module that computes something else while that is entered


class Repeats:
    """The calls of outermost modules while a window is open."""

    def __init__(self, hooks: Any) -> None:
        self._thread = threading.get_ident()
        self._step = stepping.steps()
        self._calls: list[_Call] = []
        self._met: dict[tuple, tuple[str, set[int], int, bool]] = {}
        self._left: dict[tuple[Any, int], bool] = {}  # by the place of a call in bytecode
        self._handle = hooks.register_module_forward_pre_hook(self._note_call)
        forwards.before_compiling(self._handle.remove)

    def end(self) -> None:
        """Look no more, and write down what was seen."""
        self._handle.remove()
        self._calls.clear()
        self._left.clear()
        repeats, self._met = self._met, {}
        for location, (kind, steps, calls, is_left) in repeats.items():
            values = {"class": kind, "calls": calls / len(steps), "is_left": is_left}
            recorder.fact(_NOUN, location, values, location)

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
        if len(self._calls) >= _MAX_CALLS:
            return
        torch = sys.modules["torch"]
        with torch._C.DisableTorchFunctionSubclass():
            marks = _marks(torch, [*args, *(keywords[name] for name in sorted(keywords))])
        graphed, caller = torch.is_grad_enabled(), locations.users_frame()
        is_left = not graphed and self._is_left(caller) and not _has_effects(torch, module)
        if marks is None and not graphed and not is_left:
            return
        location = None if caller is None else locations.frame_location(caller)
        state = (bool(module.training), tuple(sorted(keywords)), _versions(torch, module))
        call = _Call(weakref.ref(module), marks, graphed, state, location, is_left)
        self._find_repeat(module, call)
        self._calls.append(call)

    def _find_repeat(self, module: Any, call: _Call) -> None:
        """Note a repeat, if one of the step's calls and this are: each without gradients once."""
        for number, earlier in enumerate(self._calls):
            if earlier.module() is module and earlier.repeats(call):
                self._note_repeat(module, earlier if call.graphed else call)
                if call.graphed:
                    del self._calls[number]
                return

    def _is_left(self, frame: Any) -> bool:
        """Return whether the result of a call is left; bytecode is read once for each place."""
        if frame is None or _caller_of(sys._getframe(1)) is not frame:
            return False
        place = (frame.f_code, frame.f_lasti)
        if place not in self._left:
            self._left[place] = _is_result_left(frame)
        return self._left[place]

    def _note_repeat(self, module: Any, call: _Call) -> None:
        if call.location is not None:
            kind = type(module)
            name = f"{kind.__module__}.{kind.__qualname__}"
            _, steps, calls, is_left = self._met.get(call.location, (name, set(), 0, True))
            is_left = is_left and call.is_left
            self._met[call.location] = (name, steps | {self._step}, calls + 1, is_left)


class _Call(NamedTuple):
    """A call of an outermost module."""

    module: Any  # a weak reference
    marks: list[Any] | None
    graphed: bool
    state: tuple[bool, tuple[str, ...], int]  # what is compared beside its arguments
    location: Any
    is_left: bool  # nothing takes its result

    def repeats(self, call: _Call) -> bool:
        """Return whether one of two calls of a module gives nothing that the other does not."""
        if self.graphed == call.graphed or self.location == call.location:
            return False
        if self.is_left or call.is_left:
            return self.state[0] == call.state[0]
        if self.marks is None or call.marks is None:
            return False
        return self.state == call.state and _are_same(self.marks, call.marks)


def _is_result_left(frame: Any) -> bool:
    """Return whether a function makes no use of what the module that it calls just now returns.

    It is dropped, or kept as a local variable that no other place of the function names.
    """
    instructions = list(dis.get_instructions(frame.f_code))
    offsets = [instruction.offset for instruction in instructions]
    if frame.f_lasti not in offsets[:-1]:
        return False
    taker = instructions[offsets.index(frame.f_lasti) + 1]
    stored, _ = _variables(taker)
    if not stored:
        return taker.opname == "POP_TOP"
    return not any(stored[0] in _variables(other)[1] for other in instructions)


def _variables(instruction: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what an instruction stores to local variables, and what else it names.

    Python 3.13 joins two of them: STORE_FAST_LOAD_FAST, STORE_FAST_STORE_FAST.
    """
    argument = instruction.argval
    names = argument if isinstance(argument, tuple) else (argument,)
    n_stored = _STORES.get(instruction.opname, 0)
    return names[:n_stored], names[n_stored:]


def _caller_of(frame: Any) -> Any:
    """Return the frame that calls the module whose call is reported in a frame."""
    while frame is not None and not frame.f_code.co_filename.endswith(_CALLS):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename.endswith(_CALLS):
        frame = frame.f_back
    return frame


def _has_effects(torch: Any, module: Any) -> bool:
    """Return whether a module's result may be no aim.

    Hooks take what its parts give or get, or norms learn from the batch.
    """
    return any(
        part._forward_hooks
        or part._forward_pre_hooks
        or (part.training and getattr(part, "running_mean", None) is not None)
        for part in torch.nn.Module.modules(module)
    )


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
