"""Wrap "compile": a model is compiled in place, as by ``model.compile()``.

What cannot be compiled is written down, so that a trial counts for nothing, and goes on as it is.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ... import compiling, tracebacks
from .. import models
from ..patch import edit_counters, targets

TARGET = "torch.nn.Module.compile"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; options: "mode", "dynamic", "backend". Return what reverts it."""
    edit_counters.register_edit(number, TARGET)
    options = {name: value for name, value in edit["options"].items() if value is not None}
    undo = models.on_model(functools.partial(_wrap, number, options))
    return functools.partial(targets.undo_all, [lambda: edit_counters.record_revert(number), undo])


def _wrap(number: int, options: dict[str, Any], module: Any) -> targets.Undo | None:
    compiled = any(type(shell).__name__ == "OptimizedModule" for shell in models.shells(module))
    if compiled or module._compiled_call_impl is not None:
        return edit_counters.record_refusal(number, TARGET, "it is compiled already")
    try:
        module.compile(**options)
    except Exception as error:  # this Python, these options, warnings that are errors
        if tracebacks.from_a_signal_handler(error):
            raise
        return edit_counters.record_refusal(number, TARGET, repr(error)[:300])
    compiled_call = _CompiledCall(number, options, module, module._compiled_call_impl)
    module._compiled_call_impl = compiled_call

    def undo() -> None:
        if vars(module).get("_compiled_call_impl") is compiled_call:
            del module._compiled_call_impl

    return undo


class _CompiledCall:
    """A compiled call that knows what to do when it cannot be compiled."""

    def __init__(self, number: int, options: dict[str, Any], module: Any, call: Any) -> None:
        self.number, self.module, self.call = number, module, call
        self.mode = str(options.get("mode", "default"))
        self.called = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules["torch"]
        if compiling.get_is_compiling()():  # the training compiles around it
            return self.module._call_impl(*args, **kwargs)
        why = None if self.called else self._unfit(torch, args, kwargs)
        if why is not None:
            return self._give_up(why, args, kwargs)
        try:
            result = self.call(*args, **kwargs)
        except sys.modules["torch._dynamo.exc"].TorchDynamoException as error:
            return self._give_up(f"{type(error).__name__}: {error}"[:300], args, kwargs)
        self.called = True
        edit_counters.record_effect(self.number, TARGET, "eager", self.mode)
        return result

    def _give_up(self, why: str, args: tuple, kwargs: dict) -> Any:
        edit_counters.record_refusal(self.number, TARGET, why)
        del self.module._compiled_call_impl
        return self.module._call_impl(*args, **kwargs)

    def _unfit(self, torch: Any, args: tuple, kwargs: dict) -> str | None:
        """Return why CUDA graphs cannot capture this call; None where they are not wanted."""
        if self.mode != "reduce-overhead":
            return None
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        tensors += [*self.module.parameters(), *self.module.buffers()]
        device_types = sorted({tensor.device.type for tensor in tensors} - {"cuda"})
        return (
            f"CUDA graphs cannot hold tensors on {', '.join(device_types)}"
            if device_types
            else None
        )
