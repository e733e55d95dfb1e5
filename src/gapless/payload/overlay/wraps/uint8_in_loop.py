"""uint8-in-loop: bytes of which the loop makes floats are copied to the device as bytes.

It takes effect with each batch of which the loop makes floats so.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: uint8 in the loop"
    edit_counters.register_edit(number, target)
    return iterations.replace_iterators(number, edit, functools.partial(_make, (number, target)))


def _make(names: tuple[int, str], original: Any, switch: targets.Switch) -> Callable[[Any], Any]:
    def get_iterator(loader: Any) -> Any:
        iterator = original(loader)
        iterations.feed(iterator, functools.partial(_make_next_batch, names, switch))
        return iterator

    return get_iterator


def _make_next_batch(
    names: tuple[int, str], switch: targets.Switch, plain: iterations.NextBatch
) -> iterations.NextBatch:
    """Return the batches of an iteration, their bytes as what becomes floats later."""
    batches = iterations.import_part("batching.byte_batches")
    floats = iterations.import_part("handwritten_floats")
    report = functools.partial(edit_counters.record_effect, *names, "floats", "bytes")

    def next_batch() -> Any:
        batch = plain()
        if not switch.on:
            return batch
        floats.on_first_by_hand[:] = [report]
        return batches.defer_batch(batch)

    return next_batch
