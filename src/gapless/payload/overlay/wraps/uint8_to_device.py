"""uint8-to-device: a data set's pictures stay bytes until they are on the device.

The end of its pipeline of torchvision transforms is replaced, in place, before the loader is
iterated, and put back when the edit is reverted.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .. import iterations
from ..patch import edit_counters, targets


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: uint8 to the device"
    edit_counters.register_edit(number, target)
    return defer_pipelines(number, edit, functools.partial(_record, number, target))


def defer_pipelines(
    number: int, edit: Any, record: Callable[[list[Any], list[Any]], None] | None = None
) -> targets.Undo:
    """Let the pipelines of the loaders that are meant end early; return what reverts it.

    ``record``: called with the transforms of each before and after.
    """
    return iterations.before_iterations(number, edit, functools.partial(_defer, record))


def _defer(record: Any, loader: Any) -> targets.Undo:
    """Let the pipelines of a loader's data set end before they make floats."""
    undos: list[targets.Undo] = []
    for pipeline in iterations.import_part("pipelines").find_pipelines(loader.dataset):
        transforms = pipeline.transforms
        before = list(transforms)
        if iterations.import_part("uint8_pictures").defer_floats(pipeline):
            undos.append(functools.partial(_put_back, transforms, before))
            if record is not None:
                record(before, transforms)
    return functools.partial(targets.undo_all, undos)


def _record(number: int, target: str, before: list[Any], after: list[Any]) -> None:
    old, new = (
        ", ".join(type(transform).__name__ for transform in transforms)
        for transforms in (before, after)
    )
    edit_counters.record_effect(number, target, old, new)


def _put_back(transforms: list[Any], before: list[Any]) -> None:
    transforms[:] = before
