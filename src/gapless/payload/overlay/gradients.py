"""Do something before gradients are used: clipped, unscaled, or stepped with."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import imports
from .patch import targets

_CLIPS = ("clip_grad_norm_", "clip_grad_value_")


def before_clips(action: Callable[[list[Any]], None]) -> targets.Undo:
    """Call ``action(parameters)`` before torch clips their gradients; return what ends it."""
    undos: list[targets.Undo] = []
    switch = targets.Switch()

    def replace_clips(module: Any) -> None:
        if switch.on:
            make = functools.partial(_wrap_clip, action)
            undos.extend(targets.replace(module, name, make) for name in _CLIPS)

    imports.when_imported("torch.nn.utils.clip_grad", replace_clips)

    def undo() -> None:
        switch.on = False
        targets.undo_all(undos)

    return undo


def around_backward(around: Callable[[Any, tuple, dict], Any]) -> targets.Undo:
    """Let ``torch.autograd.backward`` (``Tensor.backward`` calls it) go through ``around``."""
    undos: list[targets.Undo] = []
    switch = targets.Switch()

    def replace_backward(module: Any) -> None:
        if switch.on:
            make = functools.partial(_wrap_backward, around)
            undos.append(targets.replace(module, "backward", make))

    imports.when_imported("torch.autograd", replace_backward)

    def undo() -> None:
        switch.on = False
        targets.undo_all(undos)

    return undo


def _wrap_clip(action: Any, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if switch.on:
            if not hasattr(parameters, "grad"):
                parameters = list(parameters)  # a generator gives them once
            action(parameters if isinstance(parameters, list) else [parameters])
        return original(parameters, *args, **kwargs)

    return clip


def _wrap_backward(around: Any, original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if not switch.on:
            return original(*args, **kwargs)
        return around(original, args, kwargs)

    return backward
