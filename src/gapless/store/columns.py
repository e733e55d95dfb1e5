"""A trace as packed columns: a seventh of the size of the profiler's JSON, and faster to read.

For windows that are kept for long, as in records of the zoo. Nothing that gapless reads is lost.
A column of integers is stored as differences or as values, whichever compresses better, split into
planes: the lowest byte of each number, then the next. Columns of events are in the order of tracks.
Times, which take most of the space, are stored as steps from each boundary (where an event begins
or ends) to the next on its track. Events nest, so how many end before the next one begins says
which they are, and an event that holds others costs only what follows the last of these. Steps are
sorted by the names on both sides, so that similar numbers are neighbours.

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
from gapless.model.trace import Events, Int32, Int64, Trace
from gapless.store.trace_tables import TraceTables, column_groups, make_tables, make_trace

SUFFIX: Final = ".columns"
_MAGIC: Final = b"gapless columns 2\n"
_XZ_MAGIC: Final = b"\xfd7zXZ\0"
# Bytes of a plane are nearly independent of the ones before them: no context, no alignment.
_FILTERS: Final = ({"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0},)
_MAX_BYTES: Final = 4 << 30  # bytes of an unpacked trace; a small file can be made to unpack to any
_TRIAL_PRESET: Final = 0  # of lzma; enough to see whether differences or values compress better
_SIGN_BIT: Final = 63
_TIMES: Final = "times"  # the group of columns that replaces the start and end of events
_STORED_ELSEWHERE: Final = {("events", "start"), ("events", "end"), ("events", "track")}
_UNSIGNED: Final = np.dtype("<u8")
_Named = dict[str, npt.NDArray[Any]]
Uint64 = npt.NDArray[np.uint64]


class _PackedColumn(Struct, array_like=True):
    group: str
    name: str
    kind: str  # of NumPy
    count: int
    is_delta: bool
    planes: bytes  # up to the highest one that is not all zeros


class _PackedColumns(Struct):
    tick_ns: int  # steps are multiples of it
    columns: tuple[_PackedColumn, ...]


def encode_trace(trace: Trace, *, archived: bool = False) -> bytes:
    """Return the content of the file that holds a trace; the path of the trace is left out.

    For an archive that is compressed as a whole, the tables are plain: those of several windows of
    a run have much in common.
    """
    order = _track_order(trace.events.track)
    tick_ns, times = _split_times(trace.events, order)
    named = [(_TIMES, name, column) for name, column in times.items()]
    for group, holder in column_groups(trace).items():
        for name in holder.__struct_fields__:
            if (group, name) not in _STORED_ELSEWHERE:
                column = getattr(holder, name)
                named.append((group, name, column[order] if group == "events" else column))
    content = _PackedColumns(tick_ns, tuple(_encode_column(*column) for column in named))
    tables = make_tables(trace)
    tables.path = ""
    packed_tables = msgspec.msgpack.encode(tables)
    return b"".join(
        (
            _MAGIC,
            lzma.compress(msgspec.msgpack.encode(content), filters=_FILTERS),
            packed_tables if archived else lzma.compress(packed_tables),
        )
    )


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
        return _decode_trace(data[len(_MAGIC) :], str(path))
    except (lzma.LZMAError, msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise NotATraceError(f"{path}: damaged columns, or of another version: {error}") from error


def _decode_trace(data: bytes, path: str) -> Trace:
    packed_columns, packed_tables = _decompress(data)
    if packed_tables.startswith(_XZ_MAGIC):
        packed_tables, _ = _decompress(packed_tables)
    content = msgspec.msgpack.decode(packed_columns, type=_PackedColumns)
    tables = msgspec.msgpack.decode(packed_tables, type=TraceTables)
    tables.path = path
    groups: dict[str, _Named] = {_TIMES: {}, "events": {}, "gpu": {}, "memory": {}}
    for column in content.columns:
        groups[column.group][column.name] = _decode_column(column)
    times, events = groups.pop(_TIMES), groups["events"]
    events |= _join_times(times, content.tick_ns, events["name"])
    track = times["track"]
    groups["events"] = {"track": track, **_scatter(events, _track_order(track))}
    for columns in groups.values():
        for values in columns.values():
            values.flags.writeable = False
    return make_trace(tables, groups)


def _decompress(data: bytes) -> tuple[bytes, bytes]:
    """Return the content of a stream, and what follows it."""
    decompressor = lzma.LZMADecompressor()
    content = decompressor.decompress(data, _MAX_BYTES)
    if not decompressor.eof:
        raise ValueError("the file is cut off, or too long")
    return content, decompressor.unused_data


def _scatter(columns: _Named, order: Int64) -> _Named:
    """Return columns in the order of the file, of those in another order."""
    scattered: _Named = {}
    for name, column in columns.items():
        scattered[name] = np.empty_like(column)
        scattered[name][order] = column
    return scattered


def _encode_column(group: str, name: str, column: npt.NDArray[Any]) -> _PackedColumn:
    is_delta = False
    if column.dtype == _UNSIGNED:
        planes = _make_planes(column)
    else:
        values = column.astype(np.int64)
        plain, delta = (
            _make_planes(_zigzag(numbers)) for numbers in (values, np.diff(values, prepend=0))
        )
        is_delta = _trial_bytes(delta) < _trial_bytes(plain)
        planes = delta if is_delta else plain
    return _PackedColumn(group, name, column.dtype.str, len(column), is_delta, planes)


def _trial_bytes(planes: bytes) -> int:
    return len(lzma.compress(planes, preset=_TRIAL_PRESET))


def _zigzag(values: Int64) -> Uint64:
    """Return numbers shifted by a bit, with their sign in the lowest one."""
    return ((values << 1) ^ (values >> _SIGN_BIT)).view(np.uint64)


def _make_planes(values: Uint64) -> bytes:
    planes = values.astype(_UNSIGNED).view(np.uint8).reshape(-1, _UNSIGNED.itemsize).T
    used_planes = np.flatnonzero(planes.any(axis=1))
    return planes[: used_planes[-1] + 1].tobytes() if len(used_planes) else b""


def _decode_column(column: _PackedColumn) -> npt.NDArray[Any]:
    planes = np.zeros((_UNSIGNED.itemsize, column.count), np.uint8)
    if column.planes:
        used_planes = np.frombuffer(column.planes, np.uint8).reshape(-1, column.count)
        planes[: len(used_planes)] = used_planes
    unsigned = np.ascontiguousarray(planes.T).view(_UNSIGNED).reshape(-1)
    if column.kind == _UNSIGNED.str:
        return unsigned
    values = (unsigned >> 1).astype(np.int64) ^ -(unsigned & 1).astype(np.int64)
    return (np.cumsum(values) if column.is_delta else values).astype(column.kind)


def _track_order(track: Int32) -> Int64:
    return np.argsort(track, kind="stable")


def _split_times(events: Events, order: Int64) -> tuple[int, _Named]:
    """Return the tick that all steps are multiples of, and the columns that replace times."""
    start, end, track = events.start[order], events.end[order], events.track[order]
    n_ended = _count_ended(start, end, track)
    event, is_end = _match_boundaries(n_ended)
    step = np.diff(np.where(is_end, end[event], start[event]), prepend=0)
    size = np.abs(step).view(np.uint64)
    tick_ns = max(int(np.gcd.reduce(size)), 1)
    sorting = _sort_by_names(events.name[order], event, is_end)
    return tick_ns, {
        "track": events.track,
        "ended": np.diff(n_ended, prepend=0),
        "is_back": (step < 0)[sorting].astype(np.uint8),
        "ticks": (size // np.uint64(tick_ns))[sorting],
    }


def _join_times(times: Mapping[str, npt.NDArray[Any]], tick_ns: int, name: Int32) -> _Named:
    """Return the starts and ends of events in the order of tracks."""
    event, is_end = _match_boundaries(np.cumsum(times["ended"]))
    size = (times["ticks"] * np.uint64(tick_ns)).view(np.int64)
    step = np.empty_like(size)
    step[_sort_by_names(name, event, is_end)] = np.where(times["is_back"], -size, size)
    time = np.cumsum(step)
    start, end = (np.empty(len(name), np.int64) for _ in range(2))
    start[event[~is_end]], end[event[is_end]] = time[~is_end], time[is_end]
    return {"start": start, "end": end}


def _count_ended(start: Int64, end: Int64, track: Int32) -> Int64:
    """Return how many events are over before each event, counted from the first track on.

    Events are in the order of tracks. One that ends before what began within it is over with that.
    """
    n_ended = np.arange(len(start))
    open_ends: list[int] = []
    track_before = None
    for number, (start_ns, end_ns, track_number) in enumerate(  # a file is written once
        zip(start.tolist(), end.tolist(), track.tolist(), strict=True)
    ):
        if track_number != track_before:
            open_ends.clear()
            track_before = track_number
        while open_ends and open_ends[-1] <= start_ns:
            open_ends.pop()
        n_ended[number] -= len(open_ends)
        open_ends.append(end_ns)
    return n_ended


def _match_boundaries(n_ended: Int64) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Return the event of each boundary, and whether it is an end: the last to begin ends first."""
    count = len(n_ended)
    is_end = np.ones(2 * count, bool)
    is_end[np.arange(count) + n_ended] = False
    n_open = np.cumsum(np.where(is_end, -1, 1))
    by_level = np.argsort(np.where(is_end, n_open, n_open - 1), kind="stable")
    event = np.cumsum(~is_end) - 1
    event[by_level[1::2]] = event[by_level[::2]]
    return event, is_end


def _sort_by_names(name: Int32, event: Int64, is_end: npt.NDArray[np.bool_]) -> Int64:
    """Return the order of boundaries by what they are, and among equals by the one before."""
    kind = name[event].astype(np.int64) * 2 + is_end
    kind_before = np.concatenate([np.zeros(1, np.int64), kind])[: len(kind)]
    return np.lexsort((kind_before, kind))
