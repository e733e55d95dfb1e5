"""The text of a trace → what stands before the events, and chunks of whole events."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

CHUNK: Final = 4 << 20
_TAIL: Final = 64 << 10  # an event is nearly always shorter
HEAD_LIMIT: Final = 64 << 20  # nobody writes that much before the events
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
# Where one event follows another. It may also match inside a string or a nested list: whoever decodes
# a chunk notices, since then it does not decode.
BOUNDARY: Final = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|tts|dur|args|id|s|bp|sf)")'
)
_BOM: Final = b"\xef\xbb\xbf"


def head(pieces: Iterator[bytes]) -> tuple[bytes, bytes] | None:
    """Give the text up to and including the bracket that opens the events, and what was read after it.

    ``None``: there is no such bracket.
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
        if len(text) > HEAD_LIMIT or (start and not start.startswith(b"{")):
            return None
    return None


def cut(first: bytes, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Give chunks of some megabytes that end where an event ends (comma and space after it included)."""
    parts, size = [first], len(first)
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size < CHUNK:
            continue
        text = b"".join(parts)
        end = _last_boundary(text)
        if end:
            yield text[:end]
        parts, size = [text[end:]], len(text) - end
    text = b"".join(parts)
    if text:
        yield text


def _last_boundary(text: bytes) -> int:
    """Give the position after the last boundary, 0 if there is none."""
    for start in (max(0, len(text) - _TAIL), 0):
        end = 0
        for found in BOUNDARY.finditer(text, start):
            end = found.end()
        if end:
            return end
    return 0
