"""packed-data: samples of a loader are read from what ``gapless pack`` wrote of its data set.

Its data set is replaced before the loader is iterated, if its samples are the same, and put back
when the edit is reverted.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target, path = f"{edit['target']}: packed data", edit["options"]["path"]
    edit_counters.register_edit(number, target)
    undos: list[targets.Undo] = []
    make = functools.partial(_make, functools.partial(_replace, number, target, path, undos))
    undos.append(iterations.replace_iterators(number, edit, make))
    return functools.partial(targets.undo_all, undos)


def _make(
    replace: Callable[[Any], None], original: Any, _switch: targets.Switch
) -> Callable[[Any], Any]:
    def get_iterator(loader: Any) -> Any:
        replace(loader)
        return original(loader)

    return get_iterator


def _replace(number: int, target: str, path: str, undos: list[targets.Undo], loader: Any) -> None:
    before = type(loader.dataset).__name__
    try:
        undo = iterations.import_part("packed_loader").replace_dataset(loader, path)
    except Exception as error:
        edit_counters.record_refusal(number, target, str(error)[:300] or repr(error))
        return
    if undo is not None:
        undos.append(undo)
        edit_counters.record_effect(number, target, before, path)
