"""decode-on-device: workers read JPEG files, and the GPU decodes them.

In each worker ``PIL.Image.open`` gives pictures that are decoded later; the end of the data set's
pipeline is replaced as by uint8-to-device. It takes effect where a batch is decoded on the device.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import iterations, workers
from ..patch import edit_counters, targets
from . import uint8_to_device


def apply(number: int, edit: Any) -> targets.Undo:
    """Apply an edit; return what reverts it."""
    target = f"{edit['target']}: decoding on the device"
    edit_counters.register_edit(number, target)
    report = functools.partial(_report, number, target)
    undos = [
        iterations.before_iterations(number, edit, functools.partial(_attach, report)),
        uint8_to_device.defer_pipelines(number, edit),
        workers.run_in_workers(number, edit, begin, ()),
    ]
    return functools.partial(targets.undo_all, undos)


def _attach(report: Any, _loader: Any) -> targets.Undo | None:
    reports = iterations.import_part("jpeg_pixels").on_first_batch
    if report in reports:
        return None
    reports.append(report)
    return functools.partial(_forget, reports, report)


def begin() -> None:
    """Let this worker open files to be decoded later."""
    iterations.import_part("jpeg_files").open_later()


def _report(number: int, target: str, most: int, mean: float) -> None:
    words = f"nvJPEG: the first picture differs by at most {most} of 255, by {mean:.2f} on average"
    edit_counters.record_effect(number, target, "Pillow", words)


def _forget(reports: list[Any], report: Any) -> None:
    if report in reports:
        reports.remove(report)
