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

from .. import gradients, optimizers, targets, telling

TARGET = "torch.nn.parallel.DistributedDataParallel.no_sync"


def lay(number: int, edit: Any) -> targets.Undo:
    """Lay an edit; options: "every", the backward passes of a step. Give what takes it off."""
    accumulating = _Accumulating(number, int(edit["options"]["every"]))
    undos = [
        targets.when_there(number, TARGET, accumulating.begin),
        gradients.around_backward(accumulating.backward),
        gradients.before_clips(accumulating.used),
    ]
    return functools.partial(targets.undo_all, undos)


class _Spread:
    """A model that is spread, and how far its gradients are."""

    def __init__(self, shell: Any) -> None:
        self.reference = weakref.ref(shell)
        self.parameters = {id(one) for one in shell.parameters() if one.requires_grad}
        self.passes = 0  # backward passes since the last step
        self.forward: str | None = None  # how the forward went that waits for its backward
        self.local = False  # the gradients are not averaged yet


class _Accumulating:
    """All models that are spread, and what is done with them."""

    def __init__(self, number: int, every: int) -> None:
        self.number, self.every = number, every
        self.spread: list[_Spread] = []
        self.undos: list[targets.Undo] = []

    def begin(self, shells: type, _name: str) -> targets.Undo:
        """Meet each model that is spread; see what uses gradients. Give what ends it."""
        scaler = sys.modules["torch.amp.grad_scaler"].GradScaler
        optim = sys.modules["torch.optim.optimizer"]
        self.undos += [
            targets.replace(shells, "__init__", self._spreading),
            targets.replace(scaler, "unscale_", self._unscaling),
            optim.register_optimizer_step_pre_hook(self._steps).remove,
            optim.register_optimizer_step_post_hook(self._stepped).remove,
        ]
        return functools.partial(targets.undo_all, self.undos)

    def _spreading(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def spread(shell: Any, *args: Any, **kwargs: Any) -> None:
            original(shell, *args, **kwargs)
            if switch.on:
                self._met(shell)

        return spread

    def _met(self, shell: Any) -> None:
        if shell.find_unused_parameters or shell.static_graph:
            why = "with find_unused_parameters or static_graph every pass is to be synchronised"
            telling.refused(self.number, TARGET, why)
            return
        one = _Spread(shell)
        self.spread.append(one)
        before = functools.partial(self._forward, one)
        self.undos.append(shell.register_forward_pre_hook(before).remove)
        after = functools.partial(self._forwarded, one)
        self.undos.append(shell.register_forward_hook(after, always_call=True).remove)

    def _forward(self, one: _Spread, shell: Any, _args: Any) -> None:
        """Decide, before the forward, whether its backward will be synchronised."""
        if not sys.modules["torch"].is_grad_enabled():
            return
        if not shell.require_backward_grad_sync:
            one.forward = None
            telling.refused(self.number, TARGET, "the training uses no_sync itself")
            return
        one.forward = "synchronised" if one.passes + 1 >= self.every else "local"
        shell.require_backward_grad_sync = one.forward == "synchronised"

    def _forwarded(self, one: _Spread, shell: Any, _args: Any, _result: Any) -> None:
        if one.forward == "local":
            shell.require_backward_grad_sync = True

    def backward(self, original: Any, args: tuple, kwargs: dict) -> Any:
        """Count a backward pass for each model that has had a forward."""
        result = original(*args, **kwargs)
        for one in self.spread:
            if one.forward is not None:
                one.passes += 1
                one.local = one.forward == "local"
                if one.local:
                    telling.told(self.number, TARGET, "each backward", "the last backward")
                one.forward = None
        return result

    def used(self, parameters: list[Any]) -> None:
        """Average the gradients that are not yet, before these are used."""
        waiting = [one for one in self.spread if one.local]
        if not waiting:
            return
        wanted = {id(one) for one in parameters}
        for one in waiting:
            shell = one.reference()
            if shell is not None and wanted & one.parameters:
                one.local = False
                _average(shell)

    def _unscaling(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def unscale(scaler: Any, optimizer: Any) -> Any:
            if switch.on:
                self.used(optimizers.parameters(optimizer))
            return original(scaler, optimizer)

        return unscale

    def _steps(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.used(optimizers.parameters(optimizer))

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        trained = {id(one) for one in optimizers.parameters(optimizer)}
        for one in self.spread:
            if trained & one.parameters:
                one.passes = 0


def _average(shell: Any) -> None:
    """Give the gradients what their backward pass would have: the mean over all processes."""
    group, torch = shell.process_group, sys.modules["torch"]
    with torch.no_grad():
        for one in shell.parameters():
            if one.requires_grad and one.grad is not None:
                one.grad.div_(group.size())
                torch.distributed.all_reduce(one.grad, group=group)
