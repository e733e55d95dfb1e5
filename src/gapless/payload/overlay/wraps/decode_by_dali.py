"""decode-by-dali: workers decode, crop and scale the JPEG files of a batch by DALI.

In each worker ``PIL.Image.open`` gives pictures that are decoded later; the end of the data set's
pipeline is replaced as by uint8-to-device. It takes effect, in each worker, with its first batch.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations, workers
from ..patch import edit_counters, targets
from . import uint8_to_device

TARGET = "decoding by DALI"
_PART = "batching.dali_batches"


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    edit_counters.register_edit(number, TARGET)
    undos = [
        iterations.before_iterations(number, edit, functools.partial(_refuse, number)),
        uint8_to_device.defer_pipelines(number, edit),
        workers.run_in_workers(number, edit, begin, (number,)),
    ]
    return functools.partial(targets.undo_all, undos)


def _refuse(number: int, _loader: Any) -> None:
    """Say, where a loader is first gone through, that DALI cannot be used."""
    why = _find_obstacle()
    if why:
        edit_counters.record_refusal(number, TARGET, why)


def _find_obstacle() -> str:
    try:
        iterations.import_part(_PART).find_dali()
    except ImportError as error:
        return f"DALI cannot be imported: {error}"[:300]
    return ""


def begin(number: int) -> None:
    """Let DALI decode the batches of this worker."""
    if _find_obstacle():
        return
    part = iterations.import_part(_PART)
    part.on_first_dali.append(functools.partial(_report, number))
    part.decode_batches()


def _report(
    number: int,
    largest: int,
    mean: float,
    is_too_far: bool,  # noqa: FBT001 - as the part calls it
) -> None:
    words = f"DALI: the first picture differs by at most {largest} of 255, by {mean:.2f} on average"
    if is_too_far:
        edit_counters.record_refusal(number, TARGET, words)
    else:
        edit_counters.record_effect(number, TARGET, "Pillow", words)
