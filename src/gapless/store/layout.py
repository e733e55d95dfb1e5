"""A trace as one file: tables first, then its columns as they lie in memory.

Opening maps the file; no column is read before it is used.
"""

import mmap
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gapless.model.trace import Trace
from gapless.store.trace_tables import TraceTables, column_groups, make_tables, make_trace

_MAGIC: Final = b"gapless trace 1\n"
_TABLES: Final = struct.Struct("<16sQQII")  # magic, bytes of tables and columns, sums of both
_PAGE: Final = 4096  # where columns start
_SAMPLED_PAGES: Final = 256  # pages that tell a damaged file from a sound one in a millisecond


class _Column(Struct, array_like=True):
    group: str
    name: str
    kind: str
    start: int
    count: int


class _CachedTrace(Struct):
    """All of a trace except its columns, and where they are."""

    tables: TraceTables
    columns: tuple[_Column, ...]


def encode_trace(trace: Trace) -> list[bytes | memoryview]:
    """Return the bytes of the file that holds a trace, in parts."""
    columns: list[_Column] = []
    body: list[bytes | memoryview] = []
    offset = 0
    for group, holder in column_groups(trace).items():
        for name in holder.__struct_fields__:
            column = np.ascontiguousarray(getattr(holder, name))
            columns.append(_Column(group, name, column.dtype.str, offset, len(column)))
            body += _pages(column.view(np.uint8).data)
            offset += column.nbytes + -column.nbytes % _PAGE
    tables = msgspec.msgpack.encode(_CachedTrace(make_tables(trace), tuple(columns)))
    start = _TABLES.size + len(tables)
    head = _TABLES.pack(_MAGIC, len(tables), offset, zlib.crc32(tables), _checksum(body, offset))
    return [head, tables, bytes(-start % _PAGE), *body]


def _pages(column: memoryview) -> list[bytes | memoryview]:
    """Return a column's whole pages, and one that holds the rest."""
    full_bytes = len(column) // _PAGE * _PAGE
    remainder = bytes(column[full_bytes:])
    return [column[:full_bytes], remainder + bytes(-len(remainder) % _PAGE)]


def load(path: Path) -> Trace | None:
    """Return the trace in a file, its columns mapped; ``None`` if the file is damaged."""
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
        return _trace(msgspec.msgpack.decode(packed, type=_CachedTrace), body)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError):  # another version's
        return None


def _trace(content: _CachedTrace, body: memoryview) -> Trace:
    columns: dict[str, dict[str, npt.NDArray[Any]]] = {"events": {}, "gpu": {}, "memory": {}}
    for column in content.columns:
        columns[column.group][column.name] = np.frombuffer(
            body, np.dtype(column.kind), column.count, column.start
        )
    return make_trace(content.tables, columns)


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
