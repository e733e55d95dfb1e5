"""Do something with each optimizer, as soon as it is made or gets more parameters."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable

from .. import imports
from ..process_state import keep_fields
from .patch import targets

# References: by id of those that are whole, weak.
_watched = keep_fields(actions=[], undos=[], references={})


def on_optimizer(action: Callable[[Any], None]) -> targets.Undo:
    """Call ``action(optimizer)`` when one is made, again when it gets a group; return what ends it.

    For those that are known at once. An optimizer's own class may have more to do when it is made:
    what it was given is in ``param_groups``.
    """
    for optimizer in list_known():
        action(optimizer)
    _watched.actions.append(action)
    if not _watched.undos:
        _watch()

    def undo() -> None:
        if action in _watched.actions:
            _watched.actions.remove(action)
        if not _watched.actions:
            targets.undo_all(_watched.undos)
            _watched.references.clear()

    return undo


def list_known() -> list[Any]:
    """Return the optimizers that were made since they are watched."""
    optimizers = [reference() for reference in list(_watched.references.values())]
    return [optimizer for optimizer in optimizers if optimizer is not None]


def parameters(optimizer: Any) -> list[Any]:
    """Return the tensors that an optimizer trains."""
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def _watch() -> None:
    switch = targets.Switch()
    _watched.undos.append(lambda: setattr(switch, "on", False))

    def replace_methods(module: Any) -> None:
        if switch.on:
            _watched.undos.append(targets.replace(module.Optimizer, "__init__", _wrap_init))
            _watched.undos.append(
                targets.replace(module.Optimizer, "add_param_group", _wrap_add_group)
            )

    imports.when_imported("torch.optim.optimizer", replace_methods)


def _wrap_init(original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if switch.on:
            key = id(self)
            _watched.references[key] = weakref.ref(
                self, functools.partial(_watched.references.pop, key)
            )
            _act(self)

    return make


def _wrap_add_group(original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def add(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if (
            switch.on and id(self) in _watched.references
        ):  # not while it is being made: one group is not all
            _act(self)
        return result

    return add


def _act(optimizer: Any) -> None:
    for action in tuple(_watched.actions):
        action(optimizer)
