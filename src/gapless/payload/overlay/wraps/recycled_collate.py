"""recycled-collate: workers hand batches over in memory that is used again.

The loader's collate function is ``parts.RecycledCollate`` while its workers are started, and what
it was before and after.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = name_target(edit)
    edit_counters.register_edit(number, target)
    return iterations.replace_iterators(number, edit, functools.partial(_make, number, target))


def name_target(edit: Any) -> str:
    """Return what an edit is said to be about."""
    return f"{edit['target']}: recycled collate"


def _make(number: int, target: str, original: Any, _switch: targets.Switch) -> Callable[[Any], Any]:
    def get_iterator(loader: Any) -> Any:
        users = loader.collate_fn
        if not loader.num_workers:
            return original(loader)
        iterations.import_part("recycled_collate").recycle_batches(loader)
        try:
            iterator = original(loader)
        finally:
            loader.collate_fn = users
        edit_counters.record_effect(number, target, "new memory", "recycled memory")
        return iterator

    return get_iterator
