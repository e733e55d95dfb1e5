"""The text of a trace → what stands before the events, and chunks of whole events."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

CHUNK: Final = 1 << 20
_TAIL: Final = 64 << 10  # an event is nearly always shorter
_HEAD_LIMIT: Final = 64 << 20  # nobody writes that much before the events
_LOOK: Final = 1 << 20  # enough to tell by the beginning
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE: Final = re.compile(rb'\[\s*\{.{0,65536}?"ph"\s*:', re.DOTALL)
# Where one event follows another. It may also match inside a string or a nested list: whoever
# decodes the chunk notices, since then it does not decode.
_BOUNDARY: Final = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|tts|dur|args|id|s|bp|sf)")'
)
_ANY: Final = re.compile(rb'\}\s*,\s*(?=\{\s*")')
_MOST_WITHOUT_BOUNDARY: Final = 64 << 20
_BOM: Final = b"\xef\xbb\xbf"


def head(pieces: Iterator[bytes]) -> tuple[bytes, bytes | None]:
    """Give the text up to and including the bracket that opens the events, and what came after it.

    Where there is no such bracket, all that was read and ``None``.
    """
    text = b""
    for piece in pieces:
        text += piece
        start = text.removeprefix(_BOM).lstrip()
        if start.startswith(b"["):
            return b"[", start[1:]
        found = _EVENTS.search(text)
        if found is not None:
            return text[: found.end()], text[found.end() :]
        if len(text) > _HEAD_LIMIT or (start and not start.startswith(b"{")):
            break
    return text, None


def starts_like_a_trace(pieces: Iterator[bytes]) -> bool:
    """Say whether the first megabyte looks like a trace."""
    text = b""
    for piece in pieces:
        text += piece
        start = text.removeprefix(_BOM).lstrip()
        if start.startswith(b"["):
            return _BARE.match(start) is not None
        if _EVENTS.search(text):
            return True
        if len(text) > _LOOK or (start and not start.startswith(b"{")):
            return False
    return False


@dataclass(frozen=True)
class Chunk:
    """Whole events, in pieces not copied together yet, and what parts them from the next chunk."""

    parts: tuple[bytes, ...]
    gap: bytes = b""

    def listed(self) -> bytes:
        """Give the events as a JSON list."""
        return b"".join((b"[", *self.parts, b"]"))

    def text(self) -> bytes:
        """Give the text as it stands in the file."""
        return b"".join((*self.parts, self.gap))


def cut(first: bytes, pieces: Iterable[bytes]) -> Iterator[Chunk]:
    """Give chunks of some megabytes that end where an event ends. The same pieces make the same."""
    parts, size = [first], len(first)
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size < CHUNK:
            continue
        found = _last(_BOUNDARY, parts[-1], len(parts[-1]) - _TAIL)
        if found is None:  # somewhere before, then
            parts = [b"".join(parts)]
            found = _last(_BOUNDARY, parts[0], 0) or _last(_ANY, parts[0], 0)
        if found is None and size > _MOST_WITHOUT_BOUNDARY:
            found = size, size
        if found is not None:
            *whole, last = parts
            yield Chunk((*whole, last[: found[0]]), last[slice(*found)])
            parts = [last[found[1] :]]
            size = len(parts[0])
    if any(parts):
        yield Chunk(tuple(parts))


def _last(pattern: re.Pattern[bytes], text: bytes, start: int) -> tuple[int, int] | None:
    """Give where the last event that another follows ends, and where that one starts."""
    last = None
    for found in pattern.finditer(text, max(0, start)):
        last = found.start() + 1, found.end()
    return last


def boundaries(text: bytes) -> list[int]:
    """List the places where an event seems to start after another."""
    found = [match.end() for match in _BOUNDARY.finditer(text)]
    return found or [match.end() for match in _ANY.finditer(text)]
