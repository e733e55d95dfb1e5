"""read-ahead: the system is told which files a batch is made of before the first one is read."""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: read ahead"
    edit_counters.register_edit(number, target)
    undos: list[targets.Undo] = []
    make = functools.partial(_make, number, target, undos)
    undos.append(iterations.replace_iterators(number, edit, make))
    return functools.partial(targets.undo_all, undos)


def _make(
    number: int, target: str, undos: list[targets.Undo], original: Any, _switch: targets.Switch
) -> Callable[[Any], Any]:
    reading = iterations.import_part("read_ahead")

    def get_iterator(loader: Any) -> Any:
        dataset = reading.find_file_dataset(loader.dataset) if loader._auto_collation else None
        if dataset is not None and reading.attach(dataset):
            undos.append(functools.partial(vars(dataset).pop, "__getitems__", None))
            edit_counters.record_effect(number, target, "one after another", "a batch at a time")
        return original(loader)

    return get_iterator
