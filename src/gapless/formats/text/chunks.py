"""The text of a trace → what stands before the events, and chunks of whole events."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

CHUNK: Final = 1 << 20
_TAIL_BYTES: Final = 64 << 10  # an event is nearly always shorter
_HEAD_LIMIT: Final = 64 << 20  # nobody writes that much before the events
_PROBE_BYTES: Final = 1 << 20  # enough to judge by the beginning
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE: Final = re.compile(rb'\[\s*\{.{0,65536}?"ph"\s*:', re.DOTALL)
# Where one event follows another. It may also match inside a string or a nested list: whoever
# decodes the chunk notices, since then it does not decode.
_BOUNDARY: Final = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|tts|dur|args|id|s|bp|sf)")'
)
_LOOSE_BOUNDARY: Final = re.compile(rb'\}\s*,\s*(?=\{\s*")')
_MAX_WITHOUT_BOUNDARY: Final = 64 << 20
_BOM: Final = b"\xef\xbb\xbf"


def head(pieces: Iterator[bytes]) -> tuple[bytes, bytes | None]:
    """Return the text up to the bracket that opens the events, included, and what came after.

    Where there is no such bracket, all that was read and ``None``.
    """
    text = b""
    for piece in pieces:
        text += piece
        start = text.removeprefix(_BOM).lstrip()
        if start.startswith(b"["):
            return b"[", start[1:]
        match = _EVENTS.search(text)
        if match is not None:
            return text[: match.end()], text[match.end() :]
        if len(text) > _HEAD_LIMIT or (start and not start.startswith(b"{")):
            break
    return text, None


def starts_like_a_trace(pieces: Iterator[bytes]) -> bool:
    """Return whether the first megabyte looks like a trace."""
    text = b""
    for piece in pieces:
        text += piece
        start = text.removeprefix(_BOM).lstrip()
        if start.startswith(b"["):
            return _BARE.match(start) is not None
        if _EVENTS.search(text):
            return True
        if len(text) > _PROBE_BYTES or (start and not start.startswith(b"{")):
            return False
    return False


class Chunk(Struct, frozen=True):
    """Whole events, in pieces not copied together yet, and what parts them from the next chunk."""

    parts: tuple[bytes, ...]
    gap: bytes = b""

    def as_list(self) -> bytes:
        """Return the events as a JSON list."""
        return b"".join((b"[", *self.parts, b"]"))

    def text(self) -> bytes:
        """Return the text as it stands in the file."""
        return b"".join((*self.parts, self.gap))


def cut_chunks(head_rest: bytes, pieces: Iterable[bytes]) -> Iterator[Chunk]:
    """Yield chunks of some megabytes that end with an event; the same pieces make the same."""
    parts, size = [head_rest], len(head_rest)
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size < CHUNK:
            continue
        boundary = _last_boundary(_BOUNDARY, parts[-1], len(parts[-1]) - _TAIL_BYTES)
        if boundary is None:  # somewhere before, then
            parts = [b"".join(parts)]
            boundary = _last_boundary(_BOUNDARY, parts[0], 0) or _last_boundary(
                _LOOSE_BOUNDARY, parts[0], 0
            )
        if boundary is None and size > _MAX_WITHOUT_BOUNDARY:
            boundary = size, size
        if boundary is not None:
            *full_parts, last_part = parts
            yield Chunk((*full_parts, last_part[: boundary[0]]), last_part[slice(*boundary)])
            parts = [last_part[boundary[1] :]]
            size = len(parts[0])
    if any(parts):
        yield Chunk(tuple(parts))


def _last_boundary(pattern: re.Pattern[bytes], text: bytes, start: int) -> tuple[int, int] | None:
    """Return where the last event that another follows ends, and where that one starts."""
    boundary = None
    for match in pattern.finditer(text, max(0, start)):
        boundary = match.start() + 1, match.end()
    return boundary


def find_boundaries(text: bytes) -> list[int]:
    """List the places where an event seems to start after another."""
    ends = [match.end() for match in _BOUNDARY.finditer(text)]
    return ends or [match.end() for match in _LOOSE_BOUNDARY.finditer(text)]
