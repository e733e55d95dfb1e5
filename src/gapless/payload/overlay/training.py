"""Know which loaders train: between two of their batches, something was trained."""

from __future__ import annotations

import sys
from typing import Any

from .. import compiling, imports
from ..process_state import keep_fields
from . import gradients
from .patch import targets

_KEY = "gapless overlay"  # among torch's hooks, whose keys are numbers
_state = keep_fields(count=0, n_users=0, undos=[])


def count() -> int:
    """Return how many backward passes and optimizer steps there have been."""
    return _state.count


def watch() -> targets.Undo:
    """Begin to count; return what ends it."""
    _state.n_users += 1
    if _state.n_users == 1:
        _state.undos.append(gradients.around_backward(_count_backward))
        _state.undos.append(_watch_steps())

    def undo() -> None:
        _state.n_users -= 1
        if not _state.n_users:
            targets.undo_all(_state.undos)

    return undo


def _count_backward(original: Any, args: Any, kwargs: Any) -> Any:
    result = original(*args, **kwargs)
    _state.count += 1
    return result


def _watch_steps() -> targets.Undo:
    switch = targets.Switch()

    def watch_optimizers(module: Any) -> None:
        if switch.on:
            module._global_optimizer_post_hooks[_KEY] = _count_step

    def undo() -> None:
        switch.on = False
        module = sys.modules.get("torch.optim.optimizer")
        if module is not None:
            module._global_optimizer_post_hooks.pop(_KEY, None)

    imports.when_imported("torch.optim.optimizer", watch_optimizers)
    return undo


def _count_step(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
    if not compiling.get_is_compiling()():
        _state.count += 1
