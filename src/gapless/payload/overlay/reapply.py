"""The moments at which settings are made again: an optimizer is made, first batch, first edges."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import imports, recorder
from ..process_state import keep_fields
from .patch import targets

EDGES = 8  # the first ones
_moments = keep_fields(actions=[], undos=[], edges=0, has_batch=False, is_watched=False)


def on_moments(action: Callable[[], None]) -> targets.Undo:
    """Call ``action()`` at these moments; return what ends that."""
    _moments.actions.append(action)
    _moments.edges, _moments.has_batch = 0, False
    if not _moments.undos:
        _watch()

    def undo() -> None:
        if action in _moments.actions:
            _moments.actions.remove(action)
        if not _moments.actions:
            targets.undo_all(_moments.undos)

    return undo


def _watch() -> None:
    switch = targets.Switch()
    _moments.undos.append(lambda: setattr(switch, "on", False))

    def watch(name: str, owner: str, method: str, make: Any) -> None:
        def replace_method(module: Any) -> None:
            if switch.on:
                _moments.undos.append(targets.replace(getattr(module, owner), method, make))

        imports.when_imported(name, replace_method)

    watch("torch.optim.optimizer", "Optimizer", "__init__", _wrap_init)
    watch("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__", _wrap_next)
    if not _moments.is_watched:
        _moments.is_watched = True
        recorder.on_edge(_edge)
        recorder.on_stop(_on_stop)


def _on_stop() -> None:
    _moments.is_watched = False


def _edge(_number: int, _start: int, _end: int) -> None:
    if _moments.edges < EDGES:
        _moments.edges += 1
        _act()


def _act() -> None:
    for action in tuple(_moments.actions):  # an action may end itself
        action()


def _wrap_init(original: Any, switch: targets.Switch) -> Any:
    @functools.wraps(original)
    def init_optimizer(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.on:
            _act()
        return result

    return init_optimizer


def _wrap_next(original: Any, switch: targets.Switch) -> Any:
    """Act after the first batch of all."""

    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        result = original(self)
        if switch.on and not _moments.has_batch:
            _moments.has_batch = True
            _act()
        return result

    return next_batch
