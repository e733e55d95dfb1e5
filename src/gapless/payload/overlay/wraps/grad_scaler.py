"""Wrap "grad-scaler": torch's GradScaler around backward, clip and step.

It goes with the wrap "autocast" in float16, or with a training that has such a region already.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

from ... import imports
from .. import gradients, optimizers
from ..patch import edit_counters, targets

TARGET = "torch.amp.GradScaler"


def apply(number: int, edit: Any) -> targets.Undo:  # noqa: ARG001 - the form of every wrap
    """Apply an edit; return what reverts it."""
    edit_counters.register_edit(number, TARGET)
    scaling = _Scaling(number)
    undos: list[targets.Undo] = [lambda: edit_counters.record_revert(number)]
    undos += [
        optimizers.on_optimizer(scaling.watch_optimizer),
        gradients.around_backward(scaling.backward),
        gradients.before_clips(scaling.unscale_gradients),
    ]
    imports.when_imported("torch.amp.grad_scaler", scaling.watch)
    return functools.partial(targets.undo_all, [*undos, scaling.end])


class _Scaling:
    """The scaler of a training, and where it is in the cycle of backward, unscale, step, update.

    It is updated before the first backward after a step: by then all optimizers have stepped.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.scaler: Any = None
        self.on, self.ours, self.stepped = True, False, False
        self.optimizers: dict[int, Any] = {}  # by id: weak references
        self.unscaled: set[int] = set()  # since the last update
        self.classes: list[type] = []
        self.undos: list[targets.Undo] = []

    def watch(self, module: Any) -> None:
        """Be off where the training has a scaler of its own."""
        if self.on:
            self.undos.append(targets.replace(module.GradScaler, "__init__", self._watch_scaler))

    def end(self) -> None:
        """Scale no more, and put the optimizers' ``step`` back."""
        self.on = False
        targets.undo_all(self.undos)

    def watch_optimizer(self, optimizer: Any) -> None:
        """Step through the scaler, whoever is asked to step."""
        key, kind = id(optimizer), type(optimizer)
        if key not in self.optimizers and "step" in vars(optimizer):  # a scheduler's
            self._refuse("the optimizer's step was wrapped before")
            return
        self.optimizers[key] = weakref.ref(optimizer, functools.partial(self._forget, key))
        if kind not in self.classes:
            self.classes.append(kind)
            self.undos.append(targets.replace(kind, "step", self._wrap_step))

    def _forget(self, key: int, reference: Any) -> None:
        if self.optimizers.get(key) is reference:
            del self.optimizers[key]

    def backward(self, original: Any, args: tuple, kwargs: dict) -> Any:
        """Run a backward pass from the scaled losses."""
        tensors = args[0] if args else kwargs.get("tensors")
        if not self.on or tensors is None:
            return original(*args, **kwargs)
        root = tensors if hasattr(tensors, "device") else next(iter(tensors), None)
        if root is None or not hasattr(root, "device"):  # an edge of the graph: no loss
            return original(*args, **kwargs)
        scaled = self._ready(root.device.type).scale(tensors)
        scaled = scaled if hasattr(scaled, "device") else tuple(scaled)
        return original(scaled, *args[1:], **{k: v for k, v in kwargs.items() if k != "tensors"})

    def _ready(self, kind: str) -> Any:
        """Return the scaler, made at the first backward and up to date."""
        if self.scaler is None:
            self.ours = True
            try:
                self.scaler = sys.modules["torch"].amp.GradScaler(kind)
            finally:
                self.ours = False
        if self.stepped:
            self.scaler.update()
            self.unscaled.clear()
            self.stepped = False
        return self.scaler

    def unscale_gradients(self, parameters: list[Any]) -> None:
        """Unscale the gradients that are to be clipped."""
        if not self.on or self.scaler is None:
            return
        clipped_ids = {id(parameter) for parameter in parameters}
        for optimizer in [ref() for ref in list(self.optimizers.values())]:
            if optimizer is None or id(optimizer) in self.unscaled:
                continue
            own_parameters = [
                parameter
                for parameter in optimizers.parameters(optimizer)
                if parameter.grad is not None
            ]
            if any(id(parameter) in clipped_ids for parameter in own_parameters):
                self.unscaled.add(id(optimizer))
                self.scaler.unscale_(optimizer)

    def _wrap_step(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if (args or kwargs) and not self.ours:
                self._refuse("a step with a closure, which a scaler does not know")
            if not switch.on or self.ours or not self._has_scaled_gradients(optimizer):
                return original(optimizer, *args, **kwargs)
            self.ours = self.stepped = True
            edit_counters.record_effect(self.number, TARGET, "step", "scaler.step")
            try:
                return self.scaler.step(optimizer)
            finally:
                self.ours = False

        return step

    def _has_scaled_gradients(self, optimizer: Any) -> bool:
        """Return whether an optimizer has gradients that come from a scaled loss."""
        if not self.on or self.scaler is None:
            return False
        return any(parameter.grad is not None for parameter in optimizers.parameters(optimizer))

    def _watch_scaler(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def make(scaler: Any, *args: Any, **kwargs: Any) -> None:
            original(scaler, *args, **kwargs)
            if switch.on and not self.ours and scaler.is_enabled():
                self._refuse("the training has a scaler of its own")

        return make

    def _refuse(self, why: str) -> None:
        if self.on:
            self.on = False
            edit_counters.record_refusal(self.number, TARGET, why)
