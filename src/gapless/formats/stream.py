"""A file → its text in pieces, inflated. A damaged or cut stream gives all that could be inflated."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from isal import isal_zlib
from zstandard import ZstdDecompressor, ZstdError

PIECE: Final = 4 << 20  # of text
_INPUT: Final = 256 << 10  # of a compressed file, read at once
_SMALL_INPUT: Final = 32 << 10  # zstd gives no bound on what comes out
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_WINDOW: Final = 31  # zlib's number for a gzip stream


class _Inflater(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass
class Text:
    """The text of a file; ``damage`` says, once all is read, why it ended early."""

    path: Path
    damage: str | None = None
    bytes_read: int = 0
    _salvaged: bool = field(default=False, repr=False)

    def pieces(self) -> Iterator[bytes]:
        """Give the text, piece by piece."""
        with self.path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic.startswith(_GZIP):
                yield from self._inflated(file, _gzip, _INPUT)
            elif magic == _ZSTD:
                yield from self._inflated(file, _zstd, _SMALL_INPUT)
            else:
                while piece := file.read(PIECE):
                    yield piece

    def _inflated(
        self, file: BinaryIO, make: Callable[[], _Inflater], size: int
    ) -> Iterator[bytes]:
        inflater, fed = make(), b""
        while data := file.read(size):
            while data:
                fed = data
                text = inflater.decompress(data)
                data = inflater.unused_data if inflater.eof else b""
                if inflater.eof and data:
                    inflater = make()
                if text:
                    yield text
        if not inflater.eof:
            self.damage = "the compressed stream ends early"


def _gzip() -> _Inflater:
    return isal_zlib.decompressobj(wbits=_WINDOW)


def _zstd() -> Any:  # noqa: ANN401  zstandard's stubs do not say
    return ZstdDecompressor().decompressobj()
