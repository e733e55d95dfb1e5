"""Loaders in the picture of a window: what workers and the pinning thread did meanwhile."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gapless import wire
from gapless.accounting.clock import ClockRanges, match_clocks
from gapless.model.picture import Picture, Strip, StripKind
from gapless.model.recording import Process, Window
from gapless.model.trace import Int64
from gapless.recorded.training.processes import Training

_MAX_WORKERS: Final = 64  # that are drawn
_PINNED: Final = "a batch pinned"


class WindowClock(Struct, frozen=True):
    """What aligns a window with the marks of its run."""

    window: Window
    ranges: ClockRanges | None
    run_start_ns: int  # of the command, on the axis of the marks


def add_loading(picture: Picture, training: Training, clock: WindowClock) -> Picture:
    """Add a strip for each worker and for pinning, on the picture's axis, and where that begins.

    Unchanged where the clock of the window is not known.
    """
    window, ranges = clock.window, clock.ranges
    clock_match = match_clocks(ranges, window.readings) if ranges is not None else None
    if clock_match is None:
        return picture
    start_ns = picture.start_ns - clock_match[0]  # of the picture, on the axis of the marks
    names = list(picture.names)
    strips = [
        strip
        for strip in (
            *(
                _fetch_strip(worker, start_ns, picture.length_ns, names)
                for worker in _select_workers(training, start_ns, picture.length_ns)
            ),
            _pinning_strip(training.process, start_ns, picture.length_ns, names),
        )
        if len(strip.start)
    ]
    return replace(
        picture,
        names=tuple(names),
        strips=(*picture.strips, *strips),
        run_offset_ns=start_ns - clock.run_start_ns,
    )


def _select_workers(training: Training, start_ns: int, length_ns: int) -> Iterator[Process]:
    """Yield the workers that lived meanwhile, by their number."""
    workers = [
        worker
        for worker in training.workers
        if worker.start < start_ns + length_ns and (worker.end is None or worker.end > start_ns)
    ]
    yield from sorted(workers, key=lambda worker: (worker.worker or 0, worker.pid))[:_MAX_WORKERS]


def _fetch_strip(worker: Process, start_ns: int, length_ns: int, names: list[str]) -> Strip:
    columns = worker.batches.columns
    number = "" if worker.worker is None else f" {worker.worker}"
    texts = [
        f"makes its batch {sequence + 1}: {samples} samples"
        for sequence, samples in zip(
            columns["sequence"].tolist(), columns["samples"].tolist(), strict=True
        )
    ]
    spans = columns["start"] - start_ns, columns["end"] - start_ns
    return _build_strip(f"worker{number}", spans, length_ns, texts, names)


def _pinning_strip(process: Process, start_ns: int, length_ns: int, names: list[str]) -> Strip:
    marks = process.marks
    rows = marks.kind == wire.PIN
    spans = marks.start[rows] - start_ns, marks.end[rows] - start_ns
    return _build_strip("pinning", spans, length_ns, [_PINNED] * int(rows.sum()), names)


def _build_strip(
    title: str, spans: tuple[Int64, Int64], length_ns: int, texts: list[str], names: list[str]
) -> Strip:
    """Return what lies in the picture as a strip; its names are appended to ``names``."""
    starts, ends = spans
    rows = np.flatnonzero((ends > 0) & (starts < length_ns))
    rows = rows[np.argsort(starts[rows], kind="stable")]
    first_name, numbers = len(names), list(map(int, rows))
    names.extend(texts[number] for number in numbers)
    return Strip(
        title=title,
        kind=StripKind.WORKER,
        start=starts[rows].clip(0),
        end=ends[rows].clip(max=length_ns),
        name=np.arange(first_name, len(names), dtype=np.int32),
        leaf=np.full(len(rows), -1, np.int8),
        group=np.full(len(rows), -1, np.int8),
        depth=np.zeros(len(rows), np.int8),
    )
