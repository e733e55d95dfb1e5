"""Batches, in the order of the file → the columns and tables of one trace."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from gapless.formats.columns import batch as b
from gapless.formats.columns.columns import ON_DEVICE
from gapless.model.category import CPU_OP
from gapless.model.trace import Int32

_MAX_DIGITS = 19  # fewer fit 64 bits
TrackKey = tuple[int | str, int | str]  # pid and tid


def _empty_map() -> Int32:
    return np.array([-1], dtype=np.int32)


class IdMap(Struct):
    """How one maker's ids translate into the file's. Each ends with −1, which an id of −1 takes."""

    names: Int32 = field(default_factory=_empty_map)
    tracks: Int32 = field(default_factory=_empty_map)
    shapes: Int32 = field(default_factory=_empty_map)
    geometries: Int32 = field(default_factory=_empty_map)
    collectives: Int32 = field(default_factory=_empty_map)


class Assembly(Struct):
    """What has been read so far."""

    names: dict[str, int] = field(default_factory=dict[str, int])
    tracks: dict[TrackKey, int] = field(default_factory=dict[TrackKey, int])
    shapes: dict[bytes, int] = field(default_factory=dict[bytes, int])
    geometries: dict[bytes, int] = field(default_factory=dict[bytes, int])
    collectives: dict[bytes, int] = field(default_factory=dict[bytes, int])
    labels: list[b.TrackLabel] = field(default_factory=list[b.TrackLabel])
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter[str])
    repaired: Counter[str] = field(default_factory=Counter[str])
    activities: int = 0
    parts: dict[str, list[dict[str, npt.NDArray[Any]]]] = field(
        default_factory=lambda: {"events": [], "gpu": [], "memory": [], "spans": []}
    )

    def add(self, batch: b.Batch, ids: IdMap) -> None:
        """Append a batch whose maker's ids are those of ``ids`` (which grows)."""
        ids.names = _extend_map(ids.names, self.names, batch.fresh.names)
        ids.tracks = _extend_map(
            ids.tracks, self.tracks, list(map(_normalize_track, batch.fresh.tracks))
        )
        ids.shapes = _extend_map(ids.shapes, self.shapes, batch.fresh.shapes)
        ids.geometries = _extend_map(ids.geometries, self.geometries, batch.fresh.geometries)
        ids.collectives = _extend_map(ids.collectives, self.collectives, batch.fresh.collectives)
        self._add_events(b.unpack(batch.events, b.EVENTS), ids)
        gpu = b.unpack(batch.gpu, b.GPU)
        gpu["geometry"] = ids.geometries[gpu["geometry"]]
        gpu["collective"] = ids.collectives[gpu["collective"]]
        self.activities += len(gpu["device"])
        self.parts["gpu"].append(gpu)
        self.parts["memory"].append(b.unpack(batch.memory, b.MEMORY))
        spans = b.unpack(batch.spans, b.SPANS)
        spans["name"] = ids.names[spans["name"]]
        spans["track"] = ids.tracks[spans["track"]]
        self.parts["spans"].append(spans)
        self.labels += [
            (*_normalize_track((pid, tid)), kind, text) for pid, tid, kind, text in batch.labels
        ]
        self.written += batch.written
        self.dropped.update(batch.dropped)
        self.repaired.update(batch.repaired)

    def _add_events(self, events: dict[str, npt.NDArray[Any]], ids: IdMap) -> None:
        events["name"] = ids.names[events["name"]]
        events["track"] = ids.tracks[events["track"]]
        operators = np.flatnonzero(events["category"] == CPU_OP)
        device = np.flatnonzero(np.isin(events["category"], ON_DEVICE))
        detail = events["detail"].copy()
        detail[operators] = ids.shapes[detail[operators]]
        detail[device] += self.activities
        events["detail"] = detail
        self.parts["events"].append(events)

    def take(self, group: str, kinds: dict[str, type]) -> dict[str, npt.NDArray[Any]]:
        """Return the whole columns of a group, and release its parts."""
        parts = self.parts.pop(group)
        columns: dict[str, npt.NDArray[Any]] = {}
        for key, kind in kinds.items():
            pieces: list[npt.NDArray[Any]] = [group_part.pop(key) for group_part in parts]
            columns[key] = np.concatenate(pieces) if pieces else np.zeros(0, kind)
        return columns


def _normalize_track(track: TrackKey) -> TrackKey:
    """Return pid and tid as numbers where they are: torch 1.8 wrote "5555" of process 5555."""
    pid, tid = track
    return _parse_number(pid), _parse_number(tid)


def _parse_number(pid_or_tid: int | str) -> int | str:
    if (
        isinstance(pid_or_tid, str)
        and pid_or_tid.isdecimal()
        and pid_or_tid.isascii()
        and len(pid_or_tid) < _MAX_DIGITS
    ):
        return int(pid_or_tid)
    return pid_or_tid


def _extend_map(ids: Int32, ids_by_key: dict[Any, int], fresh: Sequence[Any]) -> Int32:
    if not fresh:
        return ids
    new_ids = [ids_by_key.setdefault(key, len(ids_by_key)) for key in fresh]
    return np.concatenate([ids[:-1], np.array([*new_ids, -1], dtype=np.int32)])
