"""jpeg-decoder: workers decode JPEG files by another library than Pillow's own.

It takes effect, in each worker, with the first picture that is decoded so.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations, workers
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    library = (edit.get("options") or {}).get("library", "simplejpeg")
    target = f"{edit['target']}: decoding by {library}"
    edit_counters.register_edit(number, target)
    refuse = functools.partial(_refuse, (number, library, target))
    undos = [
        iterations.before_iterations(number, edit, refuse),
        workers.run_in_workers(number, edit, begin, (number, library, target)),
    ]
    return functools.partial(targets.undo_all, undos)


def _refuse(names: tuple[int, str, str], _loader: Any) -> None:
    """Say, where a loader is first gone through, that the library is not there."""
    number, library, target = names
    why = _find_obstacle(library)
    if why:
        edit_counters.record_refusal(number, target, why)


def _find_obstacle(library: str) -> str:
    try:
        iterations.import_part("jpeg_decoders").find_library(library)
    except ImportError as error:
        return f"it is not installed: {error}"[:300]
    return ""


def begin(number: int, library: str, target: str) -> None:
    """Let a library decode the files that this worker opens."""
    if _find_obstacle(library):
        return
    decoders = iterations.import_part("jpeg_decoders")
    decoders.on_first_decoded.append(functools.partial(_report, number, (target, library)))
    decoders.open_with(library)


def _report(
    number: int,
    names: tuple[str, str],
    largest: int,
    mean: float,
    is_too_far: bool,  # noqa: FBT001 - as the part calls it
) -> None:
    target, library = names
    words = f"the first picture differs by at most {largest} of 255, by {mean:.2f} on average"
    if is_too_far:
        edit_counters.record_refusal(number, target, f"{library}: {words}")
    else:
        edit_counters.record_effect(number, target, "Pillow", f"{library}: {words}")
