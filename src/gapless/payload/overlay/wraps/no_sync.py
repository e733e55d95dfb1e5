"""Wrap "no-sync": under accumulation, DDP averages gradients in the last backward of a step only.

Backward passes are counted from step to step; from the given one on, each is synchronised as ever.
Where a step comes before that (the rest of an epoch), the gradients are averaged before anything
uses them: a clip, an unscaling, the step.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

from .. import gradients, optimizers
from ..patch import edit_counters, targets

TARGET = "torch.nn.parallel.DistributedDataParallel.no_sync"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; options: "every", the backward passes of a step. Return what reverts it."""
    accumulation = _Accumulation(number, int(edit["options"]["every"]))
    undos = [
        targets.on_target(number, TARGET, accumulation.begin),
        gradients.around_backward(accumulation.backward),
        gradients.before_clips(accumulation.average_before_use),
    ]
    return functools.partial(targets.undo_all, undos)


class _SpreadModel:
    """A model that is spread, and how far its gradients are."""

    def __init__(self, shell: Any) -> None:
        self.reference = weakref.ref(shell)
        self.parameters = {
            id(parameter) for parameter in shell.parameters() if parameter.requires_grad
        }
        self.passes = 0  # backward passes since the last step
        self.forward: str | None = None  # how the forward went that waits for its backward
        self.local = False  # the gradients are not averaged yet


class _Accumulation:
    """All models that are spread, and what is done with them."""

    def __init__(self, number: int, period: int) -> None:
        self.number, self.every = number, period
        self.spread: list[_SpreadModel] = []
        self.undos: list[targets.Undo] = []

    def begin(self, shells: type, _name: str) -> targets.Undo:
        """Meet each model that is spread; see what uses gradients. Return what ends it."""
        scaler = sys.modules["torch.amp.grad_scaler"].GradScaler
        optim = sys.modules["torch.optim.optimizer"]
        self.undos += [
            targets.replace(shells, "__init__", self._wrap_init),
            targets.replace(scaler, "unscale_", self._wrap_unscale),
            optim.register_optimizer_step_pre_hook(self._before_step).remove,
            optim.register_optimizer_step_post_hook(self._after_step).remove,
        ]
        return functools.partial(targets.undo_all, self.undos)

    def _wrap_init(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def spread(shell: Any, *args: Any, **kwargs: Any) -> None:
            original(shell, *args, **kwargs)
            if switch.on:
                self._watch_model(shell)

        return spread

    def _watch_model(self, shell: Any) -> None:
        if shell.find_unused_parameters or shell.static_graph:
            why = "with find_unused_parameters or static_graph every pass is to be synchronised"
            edit_counters.record_refusal(self.number, TARGET, why)
            return
        model = _SpreadModel(shell)
        self.spread.append(model)
        before = functools.partial(self._before_forward, model)
        self.undos.append(shell.register_forward_pre_hook(before).remove)
        after = functools.partial(self._after_forward, model)
        self.undos.append(shell.register_forward_hook(after, always_call=True).remove)

    def _before_forward(self, model: _SpreadModel, shell: Any, _args: Any) -> None:
        """Decide, before the forward, whether its backward will be synchronised."""
        if not sys.modules["torch"].is_grad_enabled():
            return
        if not shell.require_backward_grad_sync:
            model.forward = None
            edit_counters.record_refusal(self.number, TARGET, "the training uses no_sync itself")
            return
        model.forward = "synchronised" if model.passes + 1 >= self.every else "local"
        shell.require_backward_grad_sync = model.forward == "synchronised"

    def _after_forward(self, model: _SpreadModel, shell: Any, _args: Any, _result: Any) -> None:
        if model.forward == "local":
            shell.require_backward_grad_sync = True

    def backward(self, original: Any, args: tuple, kwargs: dict) -> Any:
        """Count a backward pass for each model that has had a forward."""
        result = original(*args, **kwargs)
        for model in self.spread:
            if model.forward is not None:
                model.passes += 1
                model.local = model.forward == "local"
                if model.local:
                    edit_counters.record_effect(
                        self.number, TARGET, "each backward", "the last backward"
                    )
                model.forward = None
        return result

    def average_before_use(self, parameters: list[Any]) -> None:
        """Average the gradients that are not yet, before these are used."""
        local_models = [model for model in self.spread if model.local]
        if not local_models:
            return
        parameter_ids = {id(parameter) for parameter in parameters}
        for model in local_models:
            shell = model.reference()
            if shell is not None and parameter_ids & model.parameters:
                model.local = False
                _average(shell)

    def _wrap_unscale(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def unscale(scaler: Any, optimizer: Any) -> Any:
            if switch.on:
                self.average_before_use(optimizers.parameters(optimizer))
            return original(scaler, optimizer)

        return unscale

    def _before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.average_before_use(optimizers.parameters(optimizer))

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        parameter_ids = {id(parameter) for parameter in optimizers.parameters(optimizer)}
        for model in self.spread:
            if parameter_ids & model.parameters:
                model.passes = 0


def _average(shell: Any) -> None:
    """Average the gradients as their backward pass would have: the mean over all processes."""
    group, torch = shell.process_group, sys.modules["torch"]
    with torch.no_grad():
        for parameter in shell.parameters():
            if parameter.requires_grad and parameter.grad is not None:
                parameter.grad.div_(group.size())
                torch.distributed.all_reduce(parameter.grad, group=group)
