"""The assembled columns and the ends of the file → a trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from gapless.formats import metadata as m
from gapless.formats.columns import batch as b
from gapless.formats.columns import plausible, spans, tables
from gapless.formats.columns.assemble import Assembly, TrackKey
from gapless.formats.text import source
from gapless.model import category as c
from gapless.model.trace import (
    Count,
    Events,
    GpuColumns,
    Health,
    Int32,
    MemoryColumns,
    Trace,
    Track,
)

Columns = dict[str, npt.NDArray[Any]]
_ABSOLUTE: Final = 2**43 * 1000  # ns; what is later counts from 1970, not from a recent base
_SECOND: Final = 1_000_000_000
_MICROSECOND: Final = 1000
_HOST: Final = (c.CPU_OP, c.USER_ANNOTATION, c.PYTHON_FUNCTION, c.RUNTIME, c.DRIVER)
_WORKS: Final = (c.CPU_OP, c.RUNTIME, c.DRIVER)


class FileEnds(Struct, frozen=True):
    """What is left of a file when its events have been read."""

    head: bytes
    footer: bytes | None  # None: the list of events was never closed
    torn: int  # bytes of an event that was cut off
    damage: str | None
    ignored: int = 0

    @property
    def is_truncated(self) -> bool:
        """Return whether the file ended before its events did; Chrome leaves a bare list open."""
        is_bare = self.head.strip() == b"["
        return self.damage is not None or self.torn > 0 or (self.footer is None and not is_bare)


def build_trace(path: Path, assembly: Assembly, ends: FileEnds) -> Trace:
    """Return the trace."""
    metadata = m.parse(ends.head, ends.footer or b"")
    columns = _Columns.from_assembly(assembly)
    origin = columns.settle_axis(metadata.base_ns)
    columns.fill_device_tracks(list(assembly.tracks))
    columns.freeze()
    distributed = m.distributed_info(metadata)
    stated_rank = distributed.rank if distributed is not None else None
    return Trace(
        path=str(path),
        origin_ns=origin,
        events=Events(**columns.events),
        gpu=GpuColumns(**columns.gpu),
        memory=MemoryColumns(**columns.memory),
        names=tuple(assembly.names),
        tracks=_tracks(assembly),
        shapes=tuple(map(tables.parse_shape, assembly.shapes)),
        geometries=tuple(map(tables.parse_geometry, assembly.geometries)),
        collectives=tuple(map(tables.parse_collective, assembly.collectives)),
        devices=m.devices(metadata),
        distributed=distributed,
        rank=source.rank_of(path) if stated_rank is None else stated_rank,
        versions=m.versions(metadata),
        health=_health(assembly, columns, metadata, ends),
        written_events=assembly.written,
    )


class _Columns(Struct):
    events: Columns
    gpu: Columns
    memory: Columns
    resolution_ns: int = 1
    notes: list[str] = field(default_factory=list[str])

    @classmethod
    def from_assembly(cls, assembly: Assembly) -> "_Columns":
        """Take the columns, pair begins with ends, and mend times that cannot be."""
        events, gpu = assembly.take("events", b.EVENTS), assembly.take("gpu", b.GPU)
        begins = assembly.take("spans", b.SPANS)
        if len(begins["time"]):
            pairs = spans.pair_spans(begins, len(gpu["device"]), assembly.dropped)
            events = {key: np.concatenate([events[key], pairs.events[key]]) for key in b.EVENTS}
            gpu = {key: _with_absent(gpu[key], pairs.gpu_rows) for key in b.GPU}
        plausible_events = plausible.clip_times(events, gpu, assembly.dropped, assembly.repaired)
        built = cls(plausible_events.columns, gpu, assembly.take("memory", b.MEMORY))
        if plausible_events.rows is not None:
            built.renumber()
        return built

    def renumber(self) -> None:
        """Leave out the GPU rows of events that were dropped."""
        device = np.flatnonzero(np.isin(self.events["category"], (*c.ACTIVITIES, c.SYNC)))
        used_rows = self.events["detail"][device]
        self.gpu = {key: column[used_rows] for key, column in self.gpu.items()}
        detail = self.events["detail"].copy()
        detail[device] = np.arange(len(device))
        self.events = self.events | {"detail": detail}

    def settle_axis(self, base_ns: int | None) -> int:
        """Return the origin; move absolute times near to it, and find the resolution.

        Times stay as they are in the file, unless they count from 1970: then whole seconds of
        them go into the origin.
        """
        start, end = self.events["start"], self.events["end"]
        if len(start) == 0:
            return base_ns or 0
        if not (start % _MICROSECOND).any() and not (end % _MICROSECOND).any():
            self.resolution_ns = _MICROSECOND
        first_ns = int(start.min())
        if first_ns <= _ABSOLUTE:
            return base_ns or 0
        if base_ns:
            self.notes.append(
                "the times are absolute although the file states a base: base ignored"
            )
        origin = first_ns // _SECOND * _SECOND
        self.events = self.events | {"start": start - origin, "end": end - origin}
        self.memory = self.memory | {"time": self.memory["time"] - origin}
        return origin

    def fill_device_tracks(self, tracks: list[tuple[int | str, int | str]]) -> None:
        """Fill device and stream from the track, where an activity's arguments do not name them."""
        device, stream = self.gpu["device"], self.gpu["stream"]
        if len(device) == 0 or (device.min() >= 0 and stream.min() >= 0):
            return
        category, track = self.events["category"], self.events["track"]
        rows = np.flatnonzero(np.isin(category, (*c.ACTIVITIES, c.SYNC)))
        detail = self.events["detail"][rows]
        hosts = _used_pids(tracks, track[np.isin(category, _WORKS)])
        devices = np.array([-1 if p in hosts else source.device_number(p) for p, _ in tracks])
        streams = np.array([source.device_number(t) for _, t in tracks])
        by_event = np.empty(len(device), dtype=np.int64)
        by_event[detail] = track[rows]
        filled = np.where(device < 0, devices[by_event], device)
        self.gpu = self.gpu | {
            "device": filled.astype(np.int32),
            "stream": np.where(stream < 0, streams[by_event], stream),
        }

    def freeze(self) -> None:
        """Make the columns read-only."""
        for group in (self.events, self.gpu, self.memory):
            for column in group.values():
                column.flags.writeable = False


def _with_absent(column: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    return np.concatenate([column, np.full(rows, -1, dtype=column.dtype)])


def _tracks(assembly: Assembly) -> tuple[Track, ...]:
    process: dict[int | str, str] = {}
    thread: dict[tuple[int | str, int | str], str] = {}
    for pid, tid, kind, text in assembly.labels:
        if kind == "process_name":
            process[pid] = text
        else:
            thread[pid, tid] = text
    return tuple(
        Track(pid, tid, process.get(pid), thread.get((pid, tid))) for pid, tid in assembly.tracks
    )


def _health(assembly: Assembly, columns: _Columns, metadata: m.Metadata, ends: FileEnds) -> Health:
    return Health(
        source="kineto" if metadata.is_kineto else "chrome",
        dropped=_counts(assembly.dropped),
        repaired=_counts(assembly.repaired),
        truncated=ends.is_truncated,
        resolution_ns=columns.resolution_ns,
        notes=(*_ending(ends), *columns.notes, *_processes(assembly, columns), *m.notes(metadata)),
        lost=_lost_span(columns.events) if ends.is_truncated else (),
    )


def _counts(counter: dict[str, int]) -> tuple[Count, ...]:
    return tuple(Count(reason, counter[reason]) for reason in sorted(counter) if counter[reason])


def _ending(ends: FileEnds) -> list[str]:
    notes: list[str] = []
    if ends.damage is not None:
        notes.append(ends.damage)
    if ends.torn:
        notes.append(f"the file ends inside an event; its {ends.torn} bytes are lost")
    elif ends.is_truncated:
        notes.append("the file ends before its list of events does")
    elif ends.footer is None:
        notes.append("the list of events is not closed")
    if ends.ignored:
        notes.append(f"{ends.ignored} bytes after the compressed stream were ignored")
    return notes


def _processes(assembly: Assembly, columns: _Columns) -> list[str]:
    """Note if several processes were merged into one file: their ids may collide."""
    tracks = list(assembly.tracks)
    host = np.isin(columns.events["category"], _WORKS)
    pids = _used_pids(tracks, columns.events["track"][host])
    if len(pids) <= 1:
        return []
    return [f"the file holds {len(pids)} processes; ids of theirs may be taken for one another"]


def _used_pids(tracks: Sequence[TrackKey], rows: Int32) -> set[int | str]:
    used_tracks: list[int] = np.unique(rows).tolist()
    return {tracks[track][0] for track in used_tracks}


def _lost_span(events: Columns) -> tuple[tuple[int, int], ...]:
    """Return the time after the last host event: what a cut file may lack there, nobody knows."""
    host = np.isin(events["category"], _HOST)
    if not host.any():
        return ()
    last_ns, capture_end = int(events["end"][host].max()), int(events["end"].max())
    return ((last_ns, capture_end),) if last_ns < capture_end else ()
