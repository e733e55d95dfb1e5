"""What readers of other formats gather of a file, in blocks of columns → a trace.

A block holds events of one category. What a format does not know stays absent: no correlation, no
device row, no range. Times that cannot be are dropped or mended here, for all of these formats.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from gapless.errors import NotATraceError
from gapless.formats.columns import batch as b
from gapless.formats.columns import plausible
from gapless.formats.columns.columns import ON_DEVICE
from gapless.formats.text import source
from gapless.model import category as c
from gapless.model.trace import (
    Count,
    Device,
    Distributed,
    Events,
    Geometry,
    GpuColumns,
    Health,
    Int64,
    MemoryColumns,
    Roles,
    Trace,
    Track,
)

LIMIT_NS: Final = 2**61  # 73 years: sums of times, and twice a time, fit 64 bits
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
_SECOND: Final = 1_000_000_000
_MAX_PROCESSES_NOTED: Final = 1
_NO_TIME: Final = "no usable time"
_NEGATIVE: Final = "negative duration: kept as a point"


class EventBlock(Struct, frozen=True):
    """Events of one category, a row each; ``gpu`` holds the columns that devices need."""

    category: int
    start: Int64
    end: Int64
    name: Int64  # → TraceParts.names
    track: Int64  # → TraceParts.tracks
    correlation: Int64 | None = None
    gpu: dict[str, Int64] = field(default_factory=dict[str, Int64])

    def __len__(self) -> int:
        """Count the events."""
        return len(self.start)


class TraceParts(Struct):
    """What has been gathered of a file so far."""

    names: dict[str, int] = field(default_factory=dict[str, int])
    tracks: dict[tuple[int | str, int | str], int] = field(
        default_factory=dict[tuple[int | str, int | str], int]
    )
    process_names: dict[int | str, str] = field(default_factory=dict[int | str, str])
    thread_names: dict[int, str] = field(default_factory=dict[int, str])  # by track
    geometries: dict[Geometry, int] = field(default_factory=dict[Geometry, int])
    blocks: list[EventBlock] = field(default_factory=list[EventBlock])
    dropped: Counter[str] = field(default_factory=Counter[str])
    repaired: Counter[str] = field(default_factory=Counter[str])
    notes: list[str] = field(default_factory=list[str])
    step_names: set[str] = field(default_factory=set[str])
    input_names: set[str] = field(default_factory=set[str])
    executors: set[int] = field(default_factory=set[int])
    main: int = -1  # the track of the training thread, where the format tells it
    written: int = 0  # events of the file, of every kind

    def name_id(self, name: str) -> int:
        """Return the number of a name."""
        return self.names.setdefault(printable(name), len(self.names))

    def track_id(self, process: int | str, thread: int | str) -> int:
        """Return the number of a track."""
        return self.tracks.setdefault((process, thread), len(self.tracks))

    def geometry_id(self, geometry: Geometry) -> int:
        """Return the number of a kernel's launch shape."""
        return self.geometries.setdefault(geometry, len(self.geometries))

    def add(self, block: EventBlock) -> None:
        """Append a block; rows without a usable time are dropped, and counted."""
        times = np.stack((block.start, block.end))
        usable = ((times > -LIMIT_NS) & (times < LIMIT_NS)).all(axis=0)
        self.written += len(block)
        n_lost = int(np.count_nonzero(~usable))
        if n_lost:
            self.dropped[_NO_TIME] += n_lost
            block = take_rows(block, np.flatnonzero(usable))
        n_negative = int(np.count_nonzero(block.end < block.start))
        if n_negative:
            self.repaired[_NEGATIVE] += n_negative
        if len(block):
            self.blocks.append(block)


class FileFacts(Struct, frozen=True):
    """What a file says of itself, beside its events."""

    source: str
    origin_ns: int = 0
    devices: tuple[Device, ...] = ()
    distributed: Distributed | None = None
    versions: tuple[tuple[str, str], ...] = ()
    truncated: bool = False
    resolution_ns: int = 1


def printable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which cannot be printed."""
    return text.encode(errors="replace").decode() if not text.isascii() else text


def take_rows(block: EventBlock, rows: npt.NDArray[np.intp]) -> EventBlock:
    """Return some rows of a block."""
    return EventBlock(
        block.category,
        block.start[rows],
        block.end[rows],
        block.name[rows],
        block.track[rows],
        None if block.correlation is None else block.correlation[rows],
        {key: column[rows] for key, column in block.gpu.items()},
    )


def build_trace(path: Path, parts: TraceParts, facts: FileFacts) -> Trace:
    """Return the trace of what was gathered. Raises ``NotATraceError`` if there are no events."""
    if not parts.blocks:
        n_lost = sum(parts.dropped.values())
        complaint = f"none of its {n_lost} rows is an event" if n_lost else "it holds no events"
        raise NotATraceError(f"{path}: {complaint}")
    events, gpu = _join_blocks(parts.blocks)
    clipped = plausible.clip_times(events, gpu, parts.dropped, parts.repaired)
    events, gpu = _renumber(clipped.columns, gpu)
    origin_ns, shift_ns = _settle_origin(events, facts.origin_ns)
    events |= {"start": events["start"] - shift_ns, "end": events["end"] - shift_ns}
    for column in (*events.values(), *gpu.values()):
        column.flags.writeable = False
    return Trace(
        path=str(path),
        origin_ns=origin_ns,
        events=Events(**events),
        gpu=GpuColumns(**gpu),
        memory=_no_memory(),
        names=tuple(parts.names),
        tracks=_name_tracks(parts),
        shapes=(),
        geometries=tuple(parts.geometries),
        collectives=(),
        devices=facts.devices,
        distributed=facts.distributed,
        rank=source.rank_of(path),
        versions=tuple(sorted(facts.versions)),
        health=Health(
            source=facts.source,
            dropped=_counts(parts.dropped),
            repaired=_counts(parts.repaired),
            truncated=facts.truncated,
            resolution_ns=facts.resolution_ns,
            notes=tuple(map(printable, (*parts.notes, *_process_notes(parts)))),
        ),
        written_events=parts.written,
        roles=Roles(
            steps=tuple(sorted(parts.step_names & set(parts.names))),
            inputs=tuple(sorted(parts.input_names & set(parts.names))),
            main=parts.main,
            executors=tuple(sorted(parts.executors)),
        ),
    )


def _join_blocks(
    blocks: Sequence[EventBlock],
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """Return the columns of all blocks, and those of the devices' rows."""
    on_device = [block for block in blocks if block.category in ON_DEVICE]
    details: list[Int64] = []
    n_rows = 0
    for block in blocks:
        if block.category in ON_DEVICE:
            details.append(np.arange(n_rows, n_rows + len(block)))
            n_rows += len(block)
        else:
            details.append(_absent(block))
    columns = {
        "start": [block.start for block in blocks],
        "end": [np.maximum(block.start, block.end) for block in blocks],
        "name": [block.name for block in blocks],
        "category": [np.full(len(block), block.category) for block in blocks],
        "track": [block.track for block in blocks],
        "correlation": [
            _absent(block) if block.correlation is None else block.correlation for block in blocks
        ],
        "detail": details,
    }
    events = {key: np.concatenate(columns[key]).astype(kind) for key, kind in b.EVENTS.items()}
    gpu = {
        key: np.concatenate(
            [np.zeros(0, kind), *(_fit(block.gpu.get(key), block, kind) for block in on_device)]
        ).astype(kind)
        for key, kind in b.GPU.items()
    }
    return events, gpu


def _absent(block: EventBlock) -> Int64:
    return np.full(len(block), -1, np.int64)


def _fit(column: Int64 | None, block: EventBlock, kind: type) -> npt.NDArray[Any]:
    """Return a column in its type; −1 for what is absent or too large for it."""
    if column is None:
        return _absent(block)
    if kind is np.int32:
        return np.where((column >= _SMALLEST) & (column <= _LARGEST), column, -1)
    return column


def _renumber(
    events: dict[str, npt.NDArray[Any]], gpu: dict[str, npt.NDArray[Any]]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """Leave out the device rows of events that were dropped."""
    device = np.flatnonzero(np.isin(events["category"], ON_DEVICE))
    used_rows = events["detail"][device]
    detail = events["detail"].copy()
    detail[device] = np.arange(len(device))
    return events | {"detail": detail}, {key: column[used_rows] for key, column in gpu.items()}


def _settle_origin(events: dict[str, npt.NDArray[Any]], origin_ns: int) -> tuple[int, int]:
    """Return the origin, and what is to be taken from times that do not start near it."""
    first_ns = int(events["start"].min()) if len(events["start"]) else 0
    shift_ns = first_ns // _SECOND * _SECOND if abs(first_ns) > 3600 * _SECOND else 0
    return origin_ns + shift_ns, shift_ns


def _name_tracks(parts: TraceParts) -> tuple[Track, ...]:
    return tuple(
        Track(
            process,
            thread,
            _printable_or_none(parts.process_names.get(process)),
            _printable_or_none(parts.thread_names.get(track)),
        )
        for track, (process, thread) in enumerate(parts.tracks)
    )


def _printable_or_none(text: str | None) -> str | None:
    return None if text is None else printable(text)


def _process_notes(parts: TraceParts) -> list[str]:
    tracks = list(parts.tracks)
    used: set[int] = set()
    for block in parts.blocks:
        if block.category in c.CALLS:
            used.update(np.unique(block.track).tolist())
    processes = {tracks[track][0] for track in used}
    if len(processes) <= _MAX_PROCESSES_NOTED:
        return []
    return [
        f"the file holds {len(processes)} processes that called the device: steps are those of one"
    ]


def _counts(counter: "Counter[str]") -> tuple[Count, ...]:
    return tuple(Count(reason, counter[reason]) for reason in sorted(counter) if counter[reason])


def _no_memory() -> MemoryColumns:
    columns: dict[str, npt.NDArray[Any]] = {
        key: np.zeros(0, kind) for key, kind in b.MEMORY.items()
    }
    for column in columns.values():
        column.flags.writeable = False
    return MemoryColumns(**columns)
