"""Wrap "channels-last": a model of images has its weights and inputs with the channels last."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .. import forwards, models, targets, traced

TARGET = "torch.nn.Module.to"
_IMAGES = 4  # dimensions


def lay(number: int, edit: Any) -> targets.Undo:  # noqa: ARG001 - the form of every wrap
    """Lay an edit; give what takes it off."""
    told = traced.Told(number, TARGET, "contiguous", "channels_last")
    undo = models.on_model(functools.partial(_wrap, told))
    return functools.partial(targets.undo_all, [told.lifted, undo])


def _wrap(told: traced.Told, module: Any) -> targets.Undo | None:
    torch = sys.modules["torch"]
    form = torch.channels_last
    weights = [one for one in module.parameters() if one.dim() == _IMAGES]
    turned = [one for one in weights if not one.is_contiguous(memory_format=form)]
    if not turned:
        why = "its weights are channels-last already" if weights else "it has no 4-D weights"
        return told.not_now(why)
    try:
        forward = forwards.put_around(module, functools.partial(_forward, told))
    except TypeError as error:
        return told.not_now(str(error))
    module.to(memory_format=form)

    def undo() -> None:
        forward()
        for one in turned:
            one.data = one.data.contiguous()

    return undo


def _forward(told: traced.Told, forward: Any, args: tuple, kwargs: dict) -> Any:
    torch = sys.modules["torch"]
    told.now()
    turn = functools.partial(_turned, torch)
    args, kwargs = torch.utils._pytree.tree_map(turn, (args, kwargs))
    return forward(*args, **kwargs)


def _turned(torch: Any, one: Any) -> Any:
    """Give images channels-last, anything else as it is."""
    if isinstance(one, torch.Tensor) and one.dim() == _IMAGES and one.is_floating_point():
        return one.contiguous(memory_format=torch.channels_last)
    return one
