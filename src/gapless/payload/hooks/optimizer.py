"""Mark each ``optimizer.step()`` through torch's own hooks for all optimizers."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ... import wire
from .. import compiling, declare, patching, recorder, stepping
from ..process_state import keep
from ..stacks import locations
from . import models

KEY = "gapless"  # among hooks whose keys are numbers: the counter of handles is left alone


class _OptimizerEntry:
    """An optimizer that stepped: its number, and when the step that is under way began."""

    __slots__ = ("number", "reference", "start")

    def __init__(self, number: int, reference: Any) -> None:
        self.number, self.reference, self.start = number, reference, 0


class _Optimizers:
    """The optimizers that stepped."""

    def __init__(self) -> None:
        self.entries: dict[int, _OptimizerEntry] = {}  # by id of the optimizer
        # Likewise: when the first step of one began that is not known yet.
        self.starts: dict[int, int] = {}

    def begin(self) -> None:
        """Know of none; another log begins."""
        self.entries.clear()
        self.starts.clear()


_optimizers = keep(_Optimizers())


@declare.hook("torch.optim.optimizer")
def _watch(module: Any) -> None:
    watch_init = patching.around("optimizer", None, _after_init)
    patching.replace(module.Optimizer, "__init__", watch_init)
    if not hasattr(module, "_global_optimizer_pre_hooks"):
        recorder.report_unobserved(
            "optimizer steps", "torch before 2.0 has no hooks for all optimizers"
        )
        return
    before, after = _hooks(sys.modules["torch"])
    module._global_optimizer_pre_hooks[KEY] = before
    module._global_optimizer_post_hooks[KEY] = after

    def undo() -> None:
        module._global_optimizer_pre_hooks.pop(KEY, None)
        module._global_optimizer_post_hooks.pop(KEY, None)

    recorder.on_stop(undo)


def _hooks(torch: Any) -> tuple:
    """Return the hooks before and after a step.

    torch.compile traces into them where it compiles ``step`` itself; it takes ``is_compiling()``
    for a constant, so nothing of ours is left in what it makes (and such a step is not seen).
    They are for every step: what is usual is written out here. (Torch is still on its way.)
    """
    end_step: Any = patching.guard("step")(_note_step)
    guard, now, entries = end_step.guarded, recorder.now, _optimizers.entries
    compiles = compiling.defer_is_compiling(torch)

    def before(optimizer: Any, _args: tuple, _kwargs: dict) -> None:
        if not compiles():
            entry = entries.get(id(optimizer))
            if entry is not None:
                entry.start = now()
            else:
                _optimizers.starts[id(optimizer)] = now()

    def after(optimizer: Any, _args: tuple, _kwargs: dict) -> None:
        if not compiles() and guard.on:
            try:
                _note_step(optimizer, now())
            except BaseException as error:
                if guard.failed(error):
                    raise

    return before, after


def _note_step(optimizer: Any, end: int) -> None:
    entry = _optimizers.entries.get(id(optimizer))
    if entry is None or entry.reference() is not optimizer:
        entry = _register_optimizer(optimizer, end)
    number = entry.number
    recorder.mark(wire.STEP, entry.start, end, number, stepping.count(number))
    stepping.note_step(number, entry.start, end)


def _register_optimizer(optimizer: Any, end: int) -> _OptimizerEntry:
    """Write what is known of an optimizer at the end of its first step."""
    location = locations.users_line()
    with sys.modules["torch"]._C.DisableTorchFunction():  # no mode of the user's sees what we ask
        values: dict[str, Any] = describe(optimizer) or {"class": _name(optimizer)}
    values["stepped_at"] = location and location[:2]
    number = recorder.fact("optimizer", optimizer, values, location)
    models.register_optimizer(optimizer)
    for key in [
        key for key, entry in list(_optimizers.entries.items()) if entry.reference() is None
    ]:
        if key != id(optimizer):
            _optimizers.entries.pop(key, None)
    predecessor = _optimizers.entries.get(id(optimizer))  # that was at the same address
    start = _optimizers.starts.pop(id(optimizer), end) if predecessor is None else predecessor.start
    entry = _optimizers.entries[id(optimizer)] = _OptimizerEntry(number, weakref.ref(optimizer))
    entry.start = start
    return entry


def _after_init(_state: Any, args: tuple, _result: Any, raised: Any) -> None:
    if raised is None:
        recorder.fact("optimizer", args[0], {"class": _name(args[0])}, locations.users_line())


@patching.guard("optimizer facts")
def describe(optimizer: Any) -> dict[str, Any]:
    """Return what is known of an optimizer and of its tensors, none of which is read."""
    groups = optimizer.param_groups
    first_group, tensors = groups[0], [tensor for group in groups for tensor in group["params"]]
    values = {
        "class": _name(optimizer),
        "groups": len(groups),
        "tensors": len(tensors),
        "parameters": sum(tensor.numel() for tensor in tensors),
        "device": str(tensors[0].device) if tensors else None,
    }
    values.update(_without_gradients(tensors))
    for name in ("foreach", "fused", "capturable", "differentiable"):
        values[name] = first_group.get(name)
    return values


def _without_gradients(tensors: list[Any]) -> dict[str, int]:
    """Count the tensors that ask for a gradient and have none after a step, and their numbers."""
    # others' warn if read
    trainable = [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]
    ungraded = [tensor for tensor in trainable if tensor.grad is None]
    if len(ungraded) == len(tensors):  # set to nothing within the step
        return {}
    return {
        "ungraded": len(ungraded),
        "ungraded_parameters": sum(tensor.numel() for tensor in ungraded),
    }


def _name(optimizer: Any) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
