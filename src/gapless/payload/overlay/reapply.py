"""The moments at which settings are made again: an optimizer is made, first batch, first edges."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import imports, recorder
from .patch import targets

EDGES = 8  # the first ones
_actions: list[Callable[[], None]] = []
_state: dict[str, Any] = {"undo": [], "edges": 0, "fed": False, "watching": False}


def on_moments(action: Callable[[], None]) -> targets.Undo:
    """Call ``action()`` at these moments; return what ends that."""
    _actions.append(action)
    _state.update(edges=0, fed=False)
    if not _state["undo"]:
        _watch()

    def undo() -> None:
        if action in _actions:
            _actions.remove(action)
        if not _actions:
            targets.undo_all(_state["undo"])

    return undo


def _watch() -> None:
    switch = targets.Switch()
    _state["undo"].append(lambda: setattr(switch, "on", False))

    def watch(name: str, owner: str, method: str, make: Any) -> None:
        def replace_method(module: Any) -> None:
            if switch.on:
                _state["undo"].append(targets.replace(getattr(module, owner), method, make))

        imports.when_imported(name, replace_method)

    watch("torch.optim.optimizer", "Optimizer", "__init__", _wrap_init)
    watch("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__", _wrap_next)
    if not _state["watching"]:
        _state["watching"] = True
        recorder.on_edge(_edge)
        recorder.on_stop(_on_stop)


def _on_stop() -> None:
    _state["watching"] = False


def _edge(_number: int, _start: int, _end: int) -> None:
    if _state["edges"] < EDGES:
        _state["edges"] += 1
        _act()


def _act() -> None:
    for action in tuple(_actions):  # an action may end itself
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
        if switch.on and not _state["fed"]:
            _state["fed"] = True
            _act()
        return result

    return next_batch
