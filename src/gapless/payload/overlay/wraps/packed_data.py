"""packed-data: samples of a loader are read from what ``gapless pack`` wrote of its data set.

Its data set is replaced before the loader is iterated, if its samples are the same, and put back
when the edit is reverted.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target, path = f"{edit['target']}: packed data", edit["options"]["path"]
    edit_counters.register_edit(number, target)
    replace = functools.partial(_replace, number, target, path)
    return iterations.before_iterations(number, edit, replace)


def _replace(number: int, target: str, path: str, loader: Any) -> targets.Undo | None:
    before = type(loader.dataset).__name__
    try:
        undo = iterations.import_part("packed_loader").replace_dataset(loader, path)
    except Exception as error:
        edit_counters.record_refusal(number, target, str(error)[:300] or repr(error))
        return None
    if undo is not None:
        edit_counters.record_effect(number, target, before, path)
    return undo
