"""A file that is read at once: its bytes, inflated, and no more of them than such a file has."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.errors import NotATraceError
from gapless.formats.text.stream import TraceText

_MAX_BYTES: Final = 4 << 30
_FREE_BYTES: Final = 64 << 20  # that any file may have, however small it is
_MAX_RATIO: Final = 100  # of inflated to stored; profiles have 3 to 20


class WholeFile(Struct, frozen=True):
    """The bytes of a file, and what was wrong with the stream that held them."""

    data: bytes
    damage: str | None


def read_whole(path: Path) -> WholeFile:
    """Read a file. Raises ``NotATraceError`` if it inflates to more than a profile is."""
    text = TraceText(path)
    limit = min(_MAX_BYTES, _FREE_BYTES + _MAX_RATIO * path.stat().st_size)
    pieces: list[bytes] = []
    n_bytes = 0
    for piece in text.pieces():
        n_bytes += len(piece)
        if n_bytes > limit:
            raise NotATraceError(
                f"{path}: inflates to more than {limit >> 20} MB, which no profile of its size does"
            )
        pieces.append(piece)
    return WholeFile(b"".join(pieces), text.damage)
