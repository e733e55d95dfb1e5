"""uint8-by-hand: bytes of which a data set's own code makes floats stay bytes in the workers.

It takes effect, in each worker, with the first such picture.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations, workers
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: uint8 by hand"
    edit_counters.register_edit(number, target)
    return workers.run_in_workers(number, edit, begin, (number, target))


def begin(number: int, target: str) -> None:
    """Let this worker keep pictures as bytes."""
    iterations.import_part("uint8_pictures").teach_collate()
    floats = iterations.import_part("handwritten_floats")
    report = functools.partial(edit_counters.record_effect, number, target, "floats", "bytes")
    floats.on_first_by_hand.append(report)
    floats.defer_arithmetic()
