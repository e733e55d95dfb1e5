"""Traces that were read before, and what was made of them, kept for the next time.

A cache that cannot be used is no error: then nothing is found and nothing kept.
"""

import hashlib
import os
import re
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from gapless.errors import NotFoundError
from gapless.model.trace import Trace
from gapless.store import folder, layout

_PIECE: Final = 8 << 20  # hashed at once, several on several processors
_MOST_THREADS: Final = 4
_ROOMS: Final = ("formats", "model", "store")  # whose code decides what a cached trace holds
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_MAGIC: Final = b"gapless blob 1\n\0"
_HEAD: Final = struct.Struct("<16sQI")


def key(path: str | os.PathLike[str]) -> str:
    """Give the key of a file: its content, the names that may state its rank, and our code.

    Raises ``NotFoundError`` if the file cannot be read.
    """
    place = Path(path)
    try:
        content = _content(place)
    except OSError as error:
        raise NotFoundError(f"{place}: {error.strerror or error}") from error
    names = os.fsencode(f"{place.absolute().parent.name}/{place.name}")
    whole = hashlib.sha256(content + _code() + names)
    return whole.hexdigest()[:40]


def _content(path: Path) -> bytes:
    size = path.stat().st_size
    places = range(0, size, _PIECE)
    if len(places) <= 1:
        return hashlib.sha256(path.read_bytes()).digest()

    def digest(place: int) -> bytes:
        with path.open("rb") as file:
            file.seek(place)
            return hashlib.sha256(file.read(_PIECE)).digest()

    with ThreadPoolExecutor(_MOST_THREADS) as pool:
        return hashlib.sha256(b"".join(pool.map(digest, places))).digest()


@cache
def _code() -> bytes:
    return fingerprint(Path(__file__).parents[1])


def fingerprint(package: Path) -> bytes:
    """Fingerprint the code that makes traces: what another version read is never taken for ours."""
    found = hashlib.sha256()
    for room in _ROOMS:
        for file in sorted((package / room).glob("*.py")):
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.digest()


def load(key: str) -> Trace | None:
    """Give the trace that was kept under a key; ``None`` if there is none, or it is damaged.

    Its columns are mapped from the file, read-only; its ``path`` is where it was read from.
    """
    try:
        path = folder.found(f"{key}.trace")
        return None if path is None else layout.load(path)
    except OSError:
        return None


def save(key: str, trace: Trace) -> str | None:
    """Keep a trace; give the reason if it could not be kept."""
    return folder.write(f"{key}.trace", layout.parts(trace))


def load_blob(key: str, name: str) -> bytes | None:
    """Give the bytes that were kept under a key and a name; ``None`` if none, or damaged."""
    try:
        path = folder.found(_blob(key, name))
        data = b"" if path is None else path.read_bytes()
    except OSError:
        return None
    if len(data) < _HEAD.size:
        return None
    magic, length, total = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    sound = magic == _MAGIC and len(body) == length and zlib.crc32(body) == total
    return body if sound else None


def save_blob(key: str, name: str, data: bytes) -> str | None:
    """Keep some bytes under a key and a name; give the reason if they could not be kept."""
    return folder.write(_blob(key, name), [_HEAD.pack(_MAGIC, len(data), zlib.crc32(data)), data])


def _blob(key: str, name: str) -> str:
    sound = name if _NAME.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()
    return f"{key}.{sound}.blob"
