"""reduced-decoding: workers decode JPEG files at a fraction of their size.

It takes effect, in each worker, with the first picture that is decoded so.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations, workers
from ..patch import edit_counters, targets

TARGET = "decoding at a fraction"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    edit_counters.register_edit(number, TARGET)
    return workers.run_in_workers(number, edit, begin, (number,))


def begin(number: int) -> None:
    """Let this worker open files to be decoded later, at a fraction."""
    iterations.import_part("jpeg_pixels").on_first_reduced.append(
        functools.partial(_report, number)
    )
    iterations.import_part("jpeg_files").open_later(reduces=True)


def _report(number: int, most: int, mean: float) -> None:
    words = f"scaled: the first picture differs by at most {most} of 255, by {mean:.2f} on average"
    edit_counters.record_effect(number, TARGET, "at full size", words)
