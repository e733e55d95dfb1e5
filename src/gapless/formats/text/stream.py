"""A file → its text in pieces, inflated. Of a damaged or cut stream, all that can be inflated."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

from isal import isal_zlib
from msgspec import Struct
from zstandard import ZstdDecompressor, ZstdError

PIECE: Final = 4 << 20
_GZIP_WINDOW: Final = 31  # zlib's number for "a gzip stream"
_MAGIC_BYTES: Final = 4


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> _Inflater:
    inflater: Any = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)  # pyright: ignore[reportUnknownMemberType]
    return inflater


def _zstd() -> _Inflater:
    inflater: Any = ZstdDecompressor().decompressobj()
    return inflater


class Codec(Struct, frozen=True):
    """A compression: how to know it, how to undo it."""

    name: str
    magic: bytes
    start: Callable[[], _Inflater]
    input_bytes: int  # read at once; bounds the memory that a piece can inflate to


_CODECS: Final = (
    Codec("gzip", b"\x1f\x8b", _gzip, 128 << 10),
    Codec("zstd", b"\x28\xb5\x2f\xfd", _zstd, 16 << 10),
)
_BROKEN: Final = (cast("type[Exception]", isal_zlib.error), ZstdError)


class TraceText(Struct):
    """The text of a file; once read, ``damage`` and ``ignored`` say what was wrong with it."""

    path: Path
    is_compressed: bool = False
    damage: str | None = None
    ignored: int = 0  # bytes after the compressed stream that belong to nothing

    def pieces(self) -> Iterator[bytes]:
        """Yield the text, piece by piece."""
        with self.path.open("rb") as file:
            magic = file.read(_MAGIC_BYTES)
            file.seek(0)
            for codec in _CODECS:
                if magic.startswith(codec.magic):
                    self.is_compressed = True
                    yield from self._inflate(file, codec)
                    return
            while piece := file.read(PIECE):
                yield piece

    def _inflate(self, file: BinaryIO, codec: Codec) -> Iterator[bytes]:
        n_fed = 0
        members = _StreamMembers(codec)
        try:
            while data := file.read(codec.input_bytes):
                texts = members.feed(data)
                n_fed += 1
                yield from texts
        except _BROKEN as error:
            self.damage = f"the {codec.name} stream is damaged: {error}"
            file.seek(0)
            yield from _inflate_last(file, codec, n_fed)
            return
        self.ignored = members.ignored
        if members.inflater is not None:
            self.damage = f"the {codec.name} stream ends early"


def _inflate_last(file: BinaryIO, codec: Codec, n_fed: int) -> Iterator[bytes]:
    """Yield what the piece after the first ``n_fed`` inflates to, byte by byte, as far as it goes.

    An inflater that fails keeps what it had of its last piece: all is inflated once more up to it.
    """
    members = _StreamMembers(codec)
    for _ in range(n_fed):
        members.feed(file.read(codec.input_bytes))
    data = file.read(codec.input_bytes)
    for offset in range(len(data)):
        try:
            texts = members.feed(data[offset : offset + 1])
        except _BROKEN:
            return
        yield from texts


class _StreamMembers(Struct):
    """The members (gzip) or frames (zstd) of a stream, one after another."""

    codec: Codec
    inflater: _Inflater | None = None  # of the member that is open
    ignored: int = 0
    _waiting: bytes = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Inflate some more."""
        texts: list[bytes] = []
        while data:
            if self.inflater is None:
                data = self._open(data)
                continue
            text = self.inflater.decompress(data)
            if text:
                texts.append(text)
            data = b""
            if self.inflater.eof:
                data = self.inflater.unused_data
                self.inflater = None
        return texts

    def _open(self, data: bytes) -> bytes:
        """Start the next member, if one follows; zeros between members are padding."""
        start = (self._waiting + data).lstrip(b"\0")
        self._waiting = b""
        if start.startswith(self.codec.magic):
            self.inflater = self.codec.start()
            return start
        if self.codec.magic.startswith(start):
            self._waiting = start
        else:
            self.ignored += len(start)
        return b""
