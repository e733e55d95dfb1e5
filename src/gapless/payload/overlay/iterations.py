"""Let the batches of a loader come from elsewhere, while its iterators stay what they are.

An iterator of torch's takes each batch from its ``_next_data``; one that is set on the iterator
itself goes before its class's. So it is still the iterator's own ``__next__`` that gives each
batch, and all that is recorded of it. What was begun is completed when an edit is reverted.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import Any, Callable

from . import loaders
from .patch import targets, where

NextBatch = Callable[[], Any]


class EditedLoaders:
    """The loaders that an edit is about: made at a line of the user's, or all of them."""

    def __init__(self, edit: Any) -> None:
        self.all = edit.get("where") is None
        self.from_there = where.matcher(edit.get("where"))
        self.loaders: Any = weakref.WeakSet()

    def track(self, number: int, target: str) -> targets.Undo:
        """Note the loaders that are made there."""
        return targets.on_target(number, target, self._watch)

    def _watch(self, owner: Any, name: str) -> targets.Undo:
        return targets.replace(getattr(owner, name), "__init__", self._wrap_init)

    def _wrap_init(self, original: Any, switch: targets.Switch) -> Any:
        @functools.wraps(original)
        def init_loader(loader: Any, *args: Any, **kwargs: Any) -> Any:
            if switch.on and self.from_there():
                self.loaders.add(loader)
            return original(loader, *args, **kwargs)

        return init_loader

    def __contains__(self, loader: Any) -> bool:
        return self.all or loader in self.loaders


def replace_iterators(
    number: int, edit: Any, make: Callable[[Any, targets.Switch], Any]
) -> targets.Undo:
    """Replace ``_get_iterator`` of the loaders that an edit is about; return what reverts it.

    ``make(original, switch)`` returns what is called for them, with the loader.
    """
    edited_loaders = EditedLoaders(edit)

    def wrap_get_iterator(original: Any, switch: targets.Switch) -> Any:
        make_iterator = make(original, switch)

        @functools.wraps(original)
        def get_iterator(loader: Any) -> Any:
            return (
                make_iterator(loader)
                if switch.on and loader in edited_loaders
                else original(loader)
            )

        return get_iterator

    def replace(owner: Any, name: str) -> targets.Undo:
        return targets.replace(getattr(owner, name), "_get_iterator", wrap_get_iterator)

    undos: list[targets.Undo] = []
    for target in loaders.expand_target(edit["target"]):
        if not edited_loaders.all:
            undos.append(edited_loaders.track(number, target))
        undos.append(targets.on_target(number, target, replace))
    return functools.partial(targets.undo_all, undos)


def before_iterations(
    number: int, edit: Any, prepare: Callable[[Any], targets.Undo | None]
) -> targets.Undo:
    """Call ``prepare(loader)`` before the loaders that an edit is about are gone through.

    Never before the training does that: parts import torch, which is not there yet when edits are
    applied. Return what reverts it, and all that ``prepare`` returned to revert its own changes.
    """
    undos: list[targets.Undo] = []

    def make(original: Any, _switch: targets.Switch) -> Any:
        def get_iterator(loader: Any) -> Any:
            undo = prepare(loader)
            if undo is not None:
                undos.append(undo)
            return original(loader)

        return get_iterator

    undos.append(replace_iterators(number, edit, make))
    return functools.partial(targets.undo_all, undos)


def feed(iterator: Any, begin: Callable[[NextBatch], NextBatch]) -> None:
    """Let an iterator's batches come from ``begin(plain)()``; ``plain()`` gives its own next one.

    ``begin`` is called anew when the iterator is reset for another epoch. Nothing here keeps the
    iterator alive.
    """
    reference, kind = weakref.ref(iterator), type(iterator)
    before = vars(iterator).get("_next_data")
    reset_before = vars(iterator).get("_reset")

    def plain() -> Any:
        return before() if before is not None else kind._next_data(reference())

    def reset(*args: Any, **kwargs: Any) -> Any:
        itself = reference()
        if reset_before is not None:
            result = reset_before(*args, **kwargs)
        else:
            result = kind._reset(itself, *args, **kwargs)
        vars(itself)["_next_data"] = begin(plain)
        return result

    vars(iterator).update(_next_data=begin(plain), _reset=reset)


def import_part(name: str) -> Any:
    """Return a module of ``parts``, which is beside the payload under whatever name both go by."""
    return importlib.import_module(f"...parts.{name}", __package__)
