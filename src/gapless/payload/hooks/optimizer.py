"""Mark each ``optimizer.step()`` through torch's own hooks for all optimizers."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ... import wire
from .. import compiling, imports, patching, places, recorder, stepping
from . import models

KEY = "gapless"  # among hooks whose keys are numbers: the counter of handles is left alone


class _Known:
    """An optimizer that stepped: its number, and when the step that is under way began."""

    __slots__ = ("number", "reference", "start")

    def __init__(self, number: int, reference: Any) -> None:
        self.number, self.reference, self.start = number, reference, 0


_known: dict[int, _Known] = {}  # by id of the optimizer
_begun: dict[int, int] = {}  # likewise: when the first step of one began that is not known yet


def install() -> None:
    """Wait for ``torch.optim``."""
    imports.when_imported("torch.optim.optimizer", _watch)


def _watch(module: Any) -> None:
    made = patching.around("optimizer", None, _constructed)
    patching.replace(module.Optimizer, "__init__", made)
    if not hasattr(module, "_global_optimizer_pre_hooks"):
        recorder.unseen("optimizer steps", "torch before 2.0 has no hooks for all optimizers")
        return
    before, after = _hooks(sys.modules["torch"])
    module._global_optimizer_pre_hooks[KEY] = before
    module._global_optimizer_post_hooks[KEY] = after

    def undo() -> None:
        module._global_optimizer_pre_hooks.pop(KEY, None)
        module._global_optimizer_post_hooks.pop(KEY, None)

    recorder.on_stop(undo)
    recorder.on_stop(_forget)
    recorder.on_child(_forget)


def _forget() -> None:
    _known.clear()
    _begun.clear()
    stepping.forget()


def _hooks(torch: Any) -> tuple:
    """Give the hooks before and after a step.

    torch.compile traces into them where it compiles ``step`` itself; it takes ``is_compiling()``
    for a constant, so nothing of ours is left in what it makes (and such a step is not seen).
    They are for every step: what is usual is written out here. (Torch is still on its way.)
    """
    ended: Any = patching.guarded("step")(_ended)
    guard, now, known = ended.guarded, recorder.now, _known
    compiles = compiling.later_asker(torch)

    def before(optimizer: Any, _args: tuple, _kwargs: dict) -> None:
        if not compiles():
            entry = known.get(id(optimizer))
            if entry is not None:
                entry.start = now()
            else:
                _begun[id(optimizer)] = now()

    def after(optimizer: Any, _args: tuple, _kwargs: dict) -> None:
        if not compiles() and guard.on:
            try:
                _ended(optimizer, now())
            except BaseException as error:
                if guard.failed(error):
                    raise

    return before, after


def _ended(optimizer: Any, end: int) -> None:
    entry = _known.get(id(optimizer))
    if entry is None or entry.reference() is not optimizer:
        entry = _met(optimizer, end)
    number = entry.number
    recorder.mark(wire.STEP, entry.start, end, number, stepping.count(number))
    stepping.stepped(number, entry.start, end)


def _met(optimizer: Any, end: int) -> _Known:
    """Write what is known of an optimizer at the end of its first step."""
    place = places.users_line()
    with sys.modules["torch"]._C.DisableTorchFunction():  # no mode of the user's sees what we ask
        values: dict[str, Any] = described(optimizer) or {"class": _name(optimizer)}
    values["stepped_at"] = place and place[:2]
    number = recorder.fact("optimizer", optimizer, values, place)
    models.stepped(optimizer)
    for key in [key for key, one in list(_known.items()) if one.reference() is None]:
        if key != id(optimizer):
            _known.pop(key, None)
    stranger = _known.get(id(optimizer))  # that was at the same address
    start = _begun.pop(id(optimizer), end) if stranger is None else stranger.start
    entry = _known[id(optimizer)] = _Known(number, weakref.ref(optimizer))
    entry.start = start
    return entry


def _constructed(_state: Any, args: tuple, _result: Any, raised: Any) -> None:
    if raised is None:
        recorder.fact("optimizer", args[0], {"class": _name(args[0])}, places.users_line())


@patching.guarded("optimizer facts")
def described(optimizer: Any) -> dict[str, Any]:
    """Give what is known of an optimizer and of the tensors that it steps; none of them is read."""
    groups = optimizer.param_groups
    first, tensors = groups[0], [one for group in groups for one in group["params"]]
    values = {
        "class": _name(optimizer),
        "groups": len(groups),
        "tensors": len(tensors),
        "parameters": sum(one.numel() for one in tensors),
        "device": str(tensors[0].device) if tensors else None,
    }
    values.update(_without_gradients(tensors))
    for name in ("foreach", "fused", "capturable", "differentiable"):
        values[name] = first.get(name)
    return values


def _without_gradients(tensors: list[Any]) -> dict[str, int]:
    """Count the tensors that ask for a gradient and have none after a step, and their numbers."""
    asking = [one for one in tensors if one.is_leaf and one.requires_grad]  # others' warn if read
    without = [one for one in asking if one.grad is None]
    if len(without) == len(tensors):  # set to nothing within the step
        return {}
    return {"ungraded": len(without), "ungraded_parameters": sum(one.numel() for one in without)}


def _name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
