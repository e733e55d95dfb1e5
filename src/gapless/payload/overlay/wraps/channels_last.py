"""Wrap "channels-last": a model of images has its weights and inputs with the channels last."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import forwards, models, traced
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
    weights = [weight for weight in module.parameters() if weight.dim() == _IMAGES]
    converted = [weight for weight in weights if not weight.is_contiguous(memory_format=form)]
    if not converted:
        why = "its weights are channels-last already" if weights else "it has no 4-D weights"
        return traced_edit.not_now(why)
    try:
        forward = forwards.put_around(module, functools.partial(_forward, traced_edit))
    except TypeError as error:
        return traced_edit.not_now(str(error))
    module.to(memory_format=form)

    def undo() -> None:
        forward()
        for weight in converted:
            weight.data = weight.data.contiguous()

    return undo


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
