"""The whole frames of a log, also those after a damaged stretch.

A writer appends whole frames. A kill leaves half of one at the end; a full disk leaves half of one
between others. So after what is not a whole frame, the next one is searched for by its magic and
accepted if its checksum fits.
"""

import zlib
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless import wire

_MAX_READ_RATIO: Final = 8  # how many times the length of a log may be checksummed in vain
_MIN_READ_BYTES: Final = 64 << 20  # bytes; the same for a short log


class FramedLog(Struct, frozen=True):
    """The whole frames of a log, and the bytes outside them."""

    frames: tuple[tuple[int, memoryview], ...]  # kind, body
    gaps: tuple[int, ...]  # bytes of each stretch before a whole frame that is not one
    tail: int  # bytes after the last whole frame: being written, or cut off by a kill


def read_frames(log: bytes) -> FramedLog:
    """Return the whole frames of a log, in order. Raises ``wire.NewerError`` if all are newer."""
    view = memoryview(log)
    frames: list[tuple[int, memoryview]] = []
    gaps: list[int] = []
    bytes_to_read = max(_MIN_READ_BYTES, _MAX_READ_RATIO * len(log))
    frames_end = 0  # where the last whole frame ends
    position = log.find(wire.MAGIC)
    while position >= 0 and bytes_to_read > 0:
        frame = _frame_at(view, position)
        if isinstance(frame, int):
            bytes_to_read -= frame
            position = log.find(wire.MAGIC, position + 1)
            continue
        if position > frames_end:
            gaps.append(position - frames_end)
        frames.append(frame)
        frames_end = position + wire.HEADER.size + len(frame[1])
        position = log.find(wire.MAGIC, frames_end)
    _refuse_newer(log, frames)
    return FramedLog(tuple(frames), tuple(gaps), len(log) - frames_end)


def _frame_at(view: memoryview, position: int) -> tuple[int, memoryview] | int:
    """Return the frame that begins here; if none does, how many bytes were read to see that."""
    if position + wire.HEADER.size > len(view):
        return 0
    _, kind, version, length, checksum = wire.HEADER.unpack_from(view, position)
    body = view[position + wire.HEADER.size : position + wire.HEADER.size + length]
    if version != wire.VERSION or length > wire.MAX_BODY_BYTES or len(body) < length:
        return 0
    return (kind, body) if zlib.crc32(body) == checksum else length


def _refuse_newer(log: bytes, frames: list[tuple[int, memoryview]]) -> None:
    """Distinguish a log of a later version from one of ours in which a byte was changed."""
    if frames or len(log) < wire.HEADER.size or not log.startswith(wire.MAGIC):
        return
    version = wire.HEADER.unpack_from(log)[2]
    if version > wire.VERSION:
        raise wire.NewerError(version, wire.VERSION)


def is_log(path: Path) -> bool:
    """Return whether a file begins as a log does."""
    try:
        with path.open("rb") as file:
            return file.read(len(wire.MAGIC)) == wire.MAGIC
    except OSError:
        return False
