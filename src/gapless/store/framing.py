"""The whole frames of a log, also those that lie behind a damaged stretch.

A writer appends whole frames. A kill leaves half of one at the end; a full disk leaves half of one
between others. So behind what is no whole frame, the next one is looked for by its magic and
believed if its checksum fits.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gapless import wire

_PATIENCE: Final = 8  # how many times the length of a log may be summed up in vain
_AT_LEAST: Final = 64 << 20  # bytes; likewise, of a short log


@dataclass(frozen=True)
class Framed:
    """The whole frames of a log, and the bytes that belong to none."""

    frames: tuple[tuple[int, memoryview], ...]  # kind, body
    gaps: tuple[int, ...]  # bytes of each stretch before a whole frame that is none
    tail: int  # bytes after the last whole frame: being written, or cut off by a kill


def framed(log: bytes) -> Framed:
    """Give the whole frames of a log, by position. Raises ``wire.NewerError`` if all are newer."""
    view = memoryview(log)
    frames: list[tuple[int, memoryview]] = []
    gaps: list[int] = []
    patience = max(_AT_LEAST, _PATIENCE * len(log))
    whole = 0  # where the last whole frame ends
    at = log.find(wire.MAGIC)
    while at >= 0 and patience > 0:
        one = _frame(view, at)
        if isinstance(one, int):
            patience -= one
            at = log.find(wire.MAGIC, at + 1)
            continue
        if at > whole:
            gaps.append(at - whole)
        frames.append(one)
        whole = at + wire.HEADER.size + len(one[1])
        at = log.find(wire.MAGIC, whole)
    _refuse_newer(log, frames)
    return Framed(tuple(frames), tuple(gaps), len(log) - whole)


def _frame(view: memoryview, at: int) -> tuple[int, memoryview] | int:
    """Give the frame that begins here; if none does, how many bytes it took to see that."""
    if at + wire.HEADER.size > len(view):
        return 0
    _, kind, version, length, checksum = wire.HEADER.unpack_from(view, at)
    body = view[at + wire.HEADER.size : at + wire.HEADER.size + length]
    if version != wire.VERSION or length > wire.LARGEST or len(body) < length:
        return 0
    return (kind, body) if zlib.crc32(body) == checksum else length


def _refuse_newer(log: bytes, frames: list[tuple[int, memoryview]]) -> None:
    """Tell a log of a later version from one of ours in which a byte was changed."""
    if frames or len(log) < wire.HEADER.size or not log.startswith(wire.MAGIC):
        return
    version = wire.HEADER.unpack_from(log)[2]
    if version > wire.VERSION:
        raise wire.NewerError(version, wire.VERSION)


def is_log(path: Path) -> bool:
    """Say whether a file begins as a log does."""
    try:
        with path.open("rb") as file:
            return file.read(len(wire.MAGIC)) == wire.MAGIC
    except OSError:
        return False
