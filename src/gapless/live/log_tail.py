"""The latest records of a log that is being written: each byte is read once."""

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct, field

from gapless import wire
from gapless.errors import RunFolderError
from gapless.store.logs.fields import integer, parse
from gapless.store.logs.framing import FramedLog, read_frames
from gapless.store.logs.packed import DTYPES_BY_KIND

_LASTING: Final = frozenset({wire.FACT, wire.WINDOW, wire.END, wire.UNOBSERVED})
_MAX_REST_BYTES: Final = wire.MAX_BODY_BYTES  # bytes that may wait for the end of their frame
Record = tuple[int, int, bytes]  # when it ends, kind, body


class _Segment(Struct):
    """What one process wrote: its identity, what stays true, and its latest records."""

    head: bytes | None = None
    lasting: dict[object, tuple[int, bytes]] = field(
        default_factory=dict[object, tuple[int, bytes]]
    )
    records: deque[Record] = field(default_factory=deque[Record])

    def add(self, kind: int, body: memoryview) -> None:
        if kind in _LASTING:
            self.lasting[_lasting_key(kind, body)] = (kind, bytes(body))
        elif kind in DTYPES_BY_KIND or kind == wire.SAMPLE:
            end_ns = _end_ns(kind, body)
            if end_ns is not None:
                self.records.append((end_ns, kind, bytes(body)))

    def frames(self) -> Iterator[tuple[int, memoryview]]:
        if self.head is not None:
            yield wire.PROCESS, memoryview(self.head)
        for kind, body in self.lasting.values():
            yield kind, memoryview(body)
        for _, kind, body in self.records:
            yield kind, memoryview(body)


def _lasting_key(kind: int, body: memoryview) -> object:
    """Return what a later frame replaces: a fact about the same object, the same sentence."""
    if kind != wire.FACT:
        return kind, bytes(body)
    document = parse(body) or {}
    return kind, document.get("noun"), document.get("id")


def _end_ns(kind: int, body: memoryview) -> int | None:
    """Return when the last record of a frame ended; ``None`` if it holds none."""
    if kind == wire.SAMPLE:
        return integer((parse(body) or {}).get("ns"))
    dtype = DTYPES_BY_KIND[kind]
    whole_bytes = len(body) // dtype.itemsize * dtype.itemsize
    if not whole_bytes:
        return None
    return int(np.frombuffer(body[:whole_bytes], dtype)["end"].max())


class LogTail(Struct):
    """A log that is followed."""

    name: str
    segments: list[_Segment] = field(default_factory=lambda: [_Segment()])
    newest_ns: int | None = None  # the end of its last record
    _offset: int = 0
    _open_frame: bytes = b""  # of a frame that is not whole yet

    def follow(self, path: Path) -> None:
        """Read what is new; a log that became shorter is read anew. Raises ``OSError``.

        Raises ``RunFolderError`` for a log of a later version.
        """
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._offset:
                self.segments, self._offset, self._open_frame = [_Segment()], 0, b""
            if size == self._offset:
                return
            file.seek(self._offset)
            data = file.read(size - self._offset)
        self._offset += len(data)
        log = self._read(path, self._open_frame + data)
        self._open_frame = (self._open_frame + data)[-log.tail :] if log.tail else b""
        if len(self._open_frame) > _MAX_REST_BYTES:  # rubbish: no frame is so long
            self._open_frame = b""
        for kind, body in log.frames:
            self._add(kind, body)

    def _read(self, path: Path, data: bytes) -> FramedLog:
        try:
            return read_frames(data)
        except wire.NewerError as error:
            version, newest = error.args
            raise RunFolderError(
                f"{path} is of version {version}; this gapless reads up to {newest}. Upgrade "
                "gapless to watch it"
            ) from error

    def _add(self, kind: int, body: memoryview) -> None:
        if kind == wire.PROCESS:
            self.segments.append(_Segment(head=bytes(body)))
            return
        segment = self.segments[-1]
        segment.add(kind, body)
        if segment.records:
            self.newest_ns = max(self.newest_ns or 0, segment.records[-1][0])

    def forget_before(self, oldest_ns: int, min_records: int) -> None:
        """Drop records that ended before, but of the last process never the last few."""
        for segment in self.segments:
            n_kept = min_records if segment is self.segments[-1] else 0
            while len(segment.records) > n_kept and segment.records[0][0] < oldest_ns:
                segment.records.popleft()
        self.segments = [
            segment for segment in self.segments if segment.records or segment is self.segments[-1]
        ]

    def make_log(self) -> FramedLog:
        """Return the latest records as a log of their own."""
        frames = (frame for segment in self.segments for frame in segment.frames())
        return FramedLog(tuple(frames), (), 0)
