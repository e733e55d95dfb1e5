"""A trace as one file: tables first, then its columns as they lie in memory.

Opening maps the file; no column is read before it is used.
"""

import mmap
import struct
import zlib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
from msgspec import Struct

from gapless.model.trace import (
    Collective,
    Device,
    Distributed,
    Events,
    Geometry,
    GpuColumns,
    Health,
    MemoryColumns,
    Shape,
    Trace,
    Track,
)

_MAGIC: Final = b"gapless trace 1\n"
_TABLES: Final = struct.Struct("<16sQQII")  # magic, bytes of tables and columns, sums of both
_PAGE: Final = 4096  # where columns start
_SAMPLED_PAGES: Final = 256  # pages that tell a damaged file from a sound one in a millisecond

# A list of tensors has for each tensor its sizes: three levels. One more than anybody has written.
_Sizes = tuple[int | tuple[int | tuple[int | tuple[int, ...], ...], ...], ...]


class _Shape(Struct, array_like=True):
    dims: _Sizes
    strides: _Sizes
    types: tuple[str, ...]
    concrete: tuple[str, ...]


class _Column(Struct, array_like=True):
    group: str
    name: str
    kind: str
    start: int
    count: int


class _Tables(Struct):
    """All of a trace but its columns, and where those are."""

    path: str
    origin_ns: int
    names: tuple[str, ...]
    tracks: tuple[Track, ...]
    shapes: tuple[_Shape, ...]
    geometries: tuple[Geometry, ...]
    collectives: tuple[Collective, ...]
    devices: tuple[Device, ...]
    distributed: Distributed | None
    rank: int | None
    versions: tuple[tuple[str, str], ...]
    health: Health
    written_events: int
    columns: tuple[_Column, ...]


def encode_trace(trace: Trace) -> list[bytes | memoryview]:
    """Return the bytes of the file that holds a trace, in parts."""
    columns: list[_Column] = []
    body: list[bytes | memoryview] = []
    offset = 0
    for group, holder in _groups(trace).items():
        for member in fields(holder):
            column = np.ascontiguousarray(getattr(holder, member.name))
            columns.append(_Column(group, member.name, column.dtype.str, offset, len(column)))
            body += _pages(column.view(np.uint8).data)
            offset += column.nbytes + -column.nbytes % _PAGE
    tables = msgspec.msgpack.encode(_tables(trace, tuple(columns)))
    start = _TABLES.size + len(tables)
    head = _TABLES.pack(_MAGIC, len(tables), offset, zlib.crc32(tables), _checksum(body, offset))
    return [head, tables, bytes(-start % _PAGE), *body]


def _pages(column: memoryview) -> list[bytes | memoryview]:
    """Return a column's whole pages, and one that holds the rest."""
    full_bytes = len(column) // _PAGE * _PAGE
    remainder = bytes(column[full_bytes:])
    return [column[:full_bytes], remainder + bytes(-len(remainder) % _PAGE)]


def _groups(trace: Trace) -> dict[str, Events | GpuColumns | MemoryColumns]:
    return {"events": trace.events, "gpu": trace.gpu, "memory": trace.memory}


def _tables(trace: Trace, columns: tuple[_Column, ...]) -> _Tables:
    return _Tables(
        path=trace.path,
        origin_ns=trace.origin_ns,
        names=trace.names,
        tracks=trace.tracks,
        shapes=tuple(
            _Shape(cast("_Sizes", shape.dims), cast("_Sizes", shape.strides), shape.types, shape.concrete)
            for shape in trace.shapes
        ),
        geometries=trace.geometries,
        collectives=trace.collectives,
        devices=trace.devices,
        distributed=trace.distributed,
        rank=trace.rank,
        versions=trace.versions,
        health=trace.health,
        written_events=trace.written_events,
        columns=columns,
    )


def load(path: Path) -> Trace | None:
    """Return the trace in a file, its columns mapped; ``None`` if the file is not whole and sound."""
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            return None
    if len(data) < _TABLES.size:
        return None
    magic, length, body_bytes, tables_sum, body_sum = _TABLES.unpack_from(data)
    start = _TABLES.size + length
    start += -start % _PAGE
    if magic != _MAGIC or len(data) != start + body_bytes:
        return None
    packed, body = data[_TABLES.size : _TABLES.size + length], memoryview(data)[start:]
    if zlib.crc32(packed) != tables_sum or _checksum([body], body_bytes) != body_sum:
        return None
    try:
        return _trace(msgspec.msgpack.decode(packed, type=_Tables), body)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError):  # another version's
        return None


def _trace(tables: _Tables, body: memoryview) -> Trace:
    columns: dict[str, dict[str, Any]] = {"events": {}, "gpu": {}, "memory": {}}
    for column in tables.columns:
        columns[column.group][column.name] = np.frombuffer(body, np.dtype(column.kind), column.count, column.start)
    return Trace(
        path=tables.path,
        origin_ns=tables.origin_ns,
        events=Events(**columns["events"]),
        gpu=GpuColumns(**columns["gpu"]),
        memory=MemoryColumns(**columns["memory"]),
        names=tables.names,
        tracks=tables.tracks,
        shapes=tuple(Shape(shape.dims, shape.strides, shape.types, shape.concrete) for shape in tables.shapes),
        geometries=tables.geometries,
        collectives=tables.collectives,
        devices=tables.devices,
        distributed=tables.distributed,
        rank=tables.rank,
        versions=tables.versions,
        health=tables.health,
        written_events=tables.written_events,
    )


def _checksum(buffers: Sequence[bytes | memoryview], length: int) -> int:
    """Sum up some pages of a body that comes in parts; all of it if it is small."""
    step = max(1, length // _PAGE // _SAMPLED_PAGES) * _PAGE
    total, offset = 0, 0
    for buffer in buffers:
        first_page = -offset % step  # the first page of each step that starts in this part
        for start in range(first_page, len(buffer), step):
            total = zlib.crc32(buffer[start : start + _PAGE], total)
        offset += len(buffer)
    return total
