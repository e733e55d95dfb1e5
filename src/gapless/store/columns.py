"""A trace as packed columns: a sixth of the size of the profiler's JSON, and faster to read.

For windows that are kept for long, as in records of the zoo. Nothing that gapless reads is lost.
A column of integers is stored as differences or as values, whichever compresses better, split into
planes: the lowest byte of each number, then the next. Times, which take most of the space, are
stored as the duration of each event and the gap between it and the event before it, sorted by name
so that similar numbers are neighbours.

Unlike files of the cache, these outlive the code that wrote them: a new field of the tables needs a
default; any other change of the format needs another ``_MAGIC``.
"""

import lzma
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.errors import NotATraceError, NotFoundError
from gapless.model.trace import Int32, Int64, Trace
from gapless.store.trace_tables import TraceTables, column_groups, make_tables, make_trace

SUFFIX: Final = ".columns"
_MAGIC: Final = b"gapless columns 1\n"
# Bytes of a plane are nearly independent of the ones before them: no context, no alignment.
_FILTERS: Final = ({"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0},)
_MAX_BYTES: Final = 4 << 30  # bytes of an unpacked trace; a small file can be made to unpack to any
_TRIAL_PRESET: Final = 0  # of lzma; enough to see whether differences or values compress better
_SIGN_BIT: Final = 63
_TIMES: Final = "times"  # the group of columns that replaces the start and end of events
_Named = dict[str, npt.NDArray[Any]]


class _PackedColumn(Struct, array_like=True):
    group: str
    name: str
    kind: str  # of NumPy
    count: int
    is_delta: bool
    planes: bytes  # up to the highest one that is not all zeros


class _PackedTrace(Struct):
    tables: TraceTables
    columns: tuple[_PackedColumn, ...]


def encode_trace(trace: Trace) -> bytes:
    """Return the content of the file that holds a trace; the path of the trace is left out."""
    columns = [_encode_column(_TIMES, name, column) for name, column in _split_times(trace).items()]
    for group, holder in column_groups(trace).items():
        columns += [
            _encode_column(group, name, getattr(holder, name))
            for name in holder.__struct_fields__
            if (group, name) not in {("events", "start"), ("events", "end")}
        ]
    tables = make_tables(trace)
    tables.path = ""
    content = msgspec.msgpack.encode(_PackedTrace(tables, tuple(columns)))
    return _MAGIC + lzma.compress(content, filters=_FILTERS)


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds packed columns; ``False`` if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def load(path: str | os.PathLike[str]) -> Trace:
    """Read the trace in a file of packed columns.

    Raises ``NotFoundError`` if the file cannot be opened, ``NotATraceError`` if it is damaged.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror or error}") from error
    try:
        return _decode_trace(_decompress(data), str(path))
    except (lzma.LZMAError, msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise NotATraceError(f"{path}: damaged columns, or of another version: {error}") from error


def _decompress(data: bytes) -> _PackedTrace:
    decompressor = lzma.LZMADecompressor()
    packed = decompressor.decompress(data[len(_MAGIC) :], _MAX_BYTES)
    if not decompressor.eof:
        raise ValueError("the file is cut off, or too long")
    return msgspec.msgpack.decode(packed, type=_PackedTrace)


def _decode_trace(content: _PackedTrace, path: str) -> Trace:
    groups: dict[str, _Named] = {_TIMES: {}, "events": {}, "gpu": {}, "memory": {}}
    for column in content.columns:
        groups[column.group][column.name] = _decode_column(column)
    times, events = groups.pop(_TIMES), groups["events"]
    events |= _join_times(times, events["track"], events["name"])
    for columns in groups.values():
        for values in columns.values():
            values.flags.writeable = False
    content.tables.path = path
    return make_trace(content.tables, groups)


def _encode_column(group: str, name: str, column: npt.NDArray[Any]) -> _PackedColumn:
    values = column.astype(np.int64)
    plain, delta = (_make_planes(part) for part in (values, np.diff(values, prepend=0)))
    is_delta = _trial_bytes(delta) < _trial_bytes(plain)
    planes = delta if is_delta else plain
    return _PackedColumn(group, name, column.dtype.str, len(column), is_delta, planes)


def _trial_bytes(planes: bytes) -> int:
    return len(lzma.compress(planes, preset=_TRIAL_PRESET))


def _make_planes(values: Int64) -> bytes:
    """Return the planes of some numbers, each shifted by a bit, with its sign in the lowest one."""
    zigzag = ((values << 1) ^ (values >> _SIGN_BIT)).astype("<i8")
    planes = zigzag.view(np.uint8).reshape(-1, zigzag.itemsize).T
    used_planes = np.flatnonzero(planes.any(axis=1))
    return planes[: used_planes[-1] + 1].tobytes() if len(used_planes) else b""


def _decode_column(column: _PackedColumn) -> npt.NDArray[Any]:
    kind = np.dtype("<u8")
    planes = np.zeros((kind.itemsize, column.count), np.uint8)
    if column.planes:
        used_planes = np.frombuffer(column.planes, np.uint8).reshape(-1, column.count)
        planes[: len(used_planes)] = used_planes
    zigzag = np.ascontiguousarray(planes.T).view(kind).reshape(-1)
    values = (zigzag >> 1).astype(np.int64) ^ -(zigzag & 1).astype(np.int64)
    return (np.cumsum(values) if column.is_delta else values).astype(column.kind)


def _split_times(trace: Trace) -> _Named:
    """Return the durations of events, and the gaps between each and the one before it on its track.

    The gap begins at the end of the event before, or at its start if the event begins within it.
    Both columns are sorted by name.
    """
    events = trace.events
    order = np.argsort(events.track, kind="stable")
    start, length = events.start[order], (events.end - events.start)[order]
    names = _pair_names(events.name[order])
    distance, length_before = np.diff(start, prepend=0), _shift(length)
    is_after = distance >= length_before
    gap = np.where(is_after, distance - length_before, distance)
    return {
        "length": length[np.lexsort(names)],
        "is_after": is_after.astype(np.uint8),
        "gap": gap[np.lexsort((*names, is_after))],
    }


def _join_times(times: Mapping[str, npt.NDArray[Any]], track: Int32, name: Int32) -> _Named:
    """Return the starts and ends of events: the inverse of ``_split_times``."""
    order = np.argsort(track, kind="stable")
    names = _pair_names(name[order])
    is_after = times["is_after"].astype(bool)
    length, gap = (np.empty(len(order), np.int64) for _ in range(2))
    length[np.lexsort(names)] = times["length"]
    gap[np.lexsort((*names, is_after))] = times["gap"]
    start, end = (np.empty(len(order), np.int64) for _ in range(2))
    start[order] = np.cumsum(np.where(is_after, gap + _shift(length), gap))
    end[order] = start[order] + length
    return {"start": start, "end": end}


def _pair_names(name: Int32) -> tuple[Int32, Int32]:
    """Return keys for ``lexsort``: names, and among equal ones the name of the event before."""
    return _shift(name), name


def _shift(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(1, column.dtype), column])[: len(column)]
