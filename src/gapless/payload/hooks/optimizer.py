"""Mark each ``optimizer.step()`` through torch's own hooks for all optimizers."""

from __future__ import annotations

import _thread
import sys
from typing import Any

from ... import wire
from .. import imports, patching, places, recorder, stepping

KEY = "gapless"  # among hooks whose keys are numbers: the counter of handles is left alone
_started: dict[tuple[int, int], int] = {}  # (thread, id of the optimizer): when its step began


def install() -> None:
    """Wait for ``torch.optim``."""
    imports.when_imported("torch.optim.optimizer", _watch)


def _watch(module: Any) -> None:
    made = patching.around("optimizer", None, _constructed)
    patching.replace(module.Optimizer, "__init__", made)
    before, after = _hooks(sys.modules["torch"])
    module._global_optimizer_pre_hooks[KEY] = before
    module._global_optimizer_post_hooks[KEY] = after

    def undo() -> None:
        module._global_optimizer_pre_hooks.pop(KEY, None)
        module._global_optimizer_post_hooks.pop(KEY, None)

    recorder.on_stop(undo)
    recorder.on_stop(stepping.forget)
    recorder.on_child(stepping.forget)


def _hooks(torch: Any) -> tuple:
    """Give the hooks before and after a step.

    torch.compile traces into them where it compiles ``step`` itself; it takes ``is_compiling()``
    for a constant, so nothing of ours is left in what it makes (and such a step is not seen).
    """
    begun, ended = patching.guarded("step")(_begun), patching.guarded("step")(_ended)

    def before(optimizer: Any, _args: tuple, _kwargs: dict) -> None:
        if not torch.compiler.is_compiling():
            begun(optimizer)

    def after(optimizer: Any, _args: tuple, _kwargs: dict) -> None:
        if not torch.compiler.is_compiling():
            ended(optimizer)

    return before, after


def _begun(optimizer: Any) -> None:
    _started[_thread.get_ident(), id(optimizer)] = recorder.now()


def _ended(optimizer: Any) -> None:
    end = recorder.now()
    start = _started.pop((_thread.get_ident(), id(optimizer)), end)
    number = recorder.identify("optimizer", optimizer)
    count = stepping.count(number)
    if number is None or count == 0:
        place = places.users_line()
        values = _values(optimizer)
        values["stepped_at"] = place and place[:2]
        number = recorder.fact("optimizer", optimizer, values, place)
    recorder.mark(wire.STEP, start, end, number, count)
    stepping.stepped(number, start, end)


def _constructed(_state: Any, args: tuple, _result: Any, raised: Any) -> None:
    if raised is None:
        recorder.fact("optimizer", args[0], {"class": _name(args[0])}, places.users_line())


def _values(optimizer: Any) -> dict[str, Any]:
    groups = optimizer.param_groups
    first, tensors = groups[0], [one for group in groups for one in group["params"]]
    values = {
        "class": _name(optimizer),
        "groups": len(groups),
        "tensors": len(tensors),
        "parameters": sum(one.numel() for one in tensors),
    }
    for name in ("foreach", "fused", "capturable", "differentiable"):
        values[name] = first.get(name)
    return values


def _name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
