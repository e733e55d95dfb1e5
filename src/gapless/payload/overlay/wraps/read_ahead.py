"""read-ahead: the system is told which files a batch is made of before the first one is read."""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: read ahead"
    edit_counters.register_edit(number, target)
    return iterations.before_iterations(number, edit, functools.partial(_attach, number, target))


def _attach(number: int, target: str, loader: Any) -> targets.Undo | None:
    reading = iterations.import_part("read_ahead")
    dataset = reading.find_file_dataset(loader.dataset) if loader._auto_collation else None
    if dataset is None or not reading.attach(dataset):
        return None
    edit_counters.record_effect(number, target, "one after another", "a batch at a time")
    return functools.partial(vars(dataset).pop, "__getitems__", None)
