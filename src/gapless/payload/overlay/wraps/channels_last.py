"""Wrap "channels-last": a model of images has its weights and inputs with the channels last."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import forwards, models, optimizers, traced
from ..patch import targets

TARGET = "torch.nn.Module.to"
_IMAGES = 4  # dimensions


def apply(number: int, edit: Any) -> targets.Undo:  # noqa: ARG001 - the form of every wrap
    """Apply an edit; return what reverts it."""
    traced_edit = traced.TracedEdit(number, TARGET, "contiguous", "channels_last")
    undo = models.on_model(functools.partial(_wrap, traced_edit))
    return functools.partial(targets.undo_all, [traced_edit.record_revert, undo])


def _wrap(traced_edit: traced.TracedEdit, module: Any) -> targets.Undo | None:
    torch = sys.modules["torch"]
    form = torch.channels_last
    tensors = [*module.parameters(), *module.buffers()]
    weights = [weight for weight in tensors if weight.dim() == _IMAGES]
    converted = [weight for weight in weights if not weight.is_contiguous(memory_format=form)]
    if not converted:
        why = "its weights are channels-last already" if weights else "it has no 4-D weights"
        return traced_edit.not_now(why)
    try:
        forward = forwards.put_around(module, functools.partial(_forward, traced_edit))
    except TypeError as error:
        return traced_edit.not_now(str(error))
    module.to(memory_format=form)
    _turn_companions(converted, form)

    def undo() -> None:
        forward()
        for weight in converted:
            weight.data = weight.data.contiguous()
        _turn_companions(converted, torch.contiguous_format)

    return undo


def _turn_companions(weights: list[Any], form: Any) -> None:
    """Turn the gradients of weights, and what optimizers keep of them, as the weights are.

    There are none when a training starts; where it runs, an optimizer would go through tensors of
    two forms at once, which takes longer than either.
    """
    for weight in weights:
        if weight.grad is not None:
            weight.grad = weight.grad.contiguous(memory_format=form)
    for optimizer in optimizers.list_known():
        for weight in weights:
            state = optimizer.state.get(weight, {})
            for name, value in state.items():
                if getattr(value, "shape", None) == weight.shape:
                    state[name] = value.contiguous(memory_format=form)


def _forward(traced_edit: traced.TracedEdit, forward: Any, args: tuple, kwargs: dict) -> Any:
    torch = sys.modules["torch"]
    traced_edit.now()
    turn = functools.partial(_turn_leaf, torch)
    args, kwargs = torch.utils._pytree.tree_map(turn, (args, kwargs))
    return forward(*args, **kwargs)


def _turn_leaf(torch: Any, leaf: Any) -> Any:
    """Return images channels-last, anything else as it is."""
    if isinstance(leaf, torch.Tensor) and leaf.dim() == _IMAGES and leaf.is_floating_point():
        return leaf.contiguous(memory_format=torch.channels_last)
    return leaf
