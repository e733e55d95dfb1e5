"""Traces that were read before, and what was computed from them, kept for the next time.

A cache that cannot be used is not an error: then nothing is found and nothing kept.
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
from gapless.remote.files import identify_url, is_url, name_in_folder
from gapless.store import folder, layout

_PIECE: Final = 8 << 20  # hashed at once, several on several processors
_MAX_THREADS: Final = 4
_PACKAGES: Final = ("formats", "model", "store")  # whose code determines what a cached trace holds
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_MAGIC: Final = b"gapless blob 1\n\0"
_HEAD: Final = struct.Struct("<16sQI")


def content_key(path: str | os.PathLike[str]) -> str:
    """Return the key of a file: its content, the names that may state its rank, and our code.

    A remote file is known by what its file system says of it. Raises ``NotFoundError`` if the file
    cannot be read, ``RemoteError`` if it is remote and cannot be reached.
    """
    if is_url(name := os.fspath(path)):
        digest = hashlib.sha256(identify_url(name) + _code() + os.fsencode(name_in_folder(name)))
        return digest.hexdigest()[:40]
    file_path = Path(path)
    try:
        content = _content(file_path)
    except OSError as error:
        raise NotFoundError(f"{file_path}: {error.strerror or error}") from error
    names = os.fsencode(f"{file_path.absolute().parent.name}/{file_path.name}")
    digest = hashlib.sha256(content + _code() + names)
    return digest.hexdigest()[:40]


def _content(path: Path) -> bytes:
    size = path.stat().st_size
    offsets = range(0, size, _PIECE)
    if len(offsets) <= 1:
        return hashlib.sha256(path.read_bytes()).digest()

    def piece_digest(offset: int) -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return hashlib.sha256(file.read(_PIECE)).digest()

    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        return hashlib.sha256(b"".join(pool.map(piece_digest, offsets))).digest()


@cache
def _code() -> bytes:
    return fingerprint(Path(__file__).parents[1])


def fingerprint(package: Path) -> bytes:
    """Fingerprint the code that makes traces: what another version read is not reused."""
    digest = hashlib.sha256()
    for subpackage in _PACKAGES:
        for file in sorted((package / subpackage).rglob("*.py")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()


def load(key: str) -> Trace | None:
    """Return the trace that was kept under a key; ``None`` if there is none, or it is damaged.

    Its columns are mapped from the file, read-only; its ``path`` is where it was read from.
    """
    try:
        path = folder.find_file(f"{key}.trace")
        return None if path is None else layout.load(path)
    except OSError:
        return None


def save(key: str, trace: Trace) -> str | None:
    """Keep a trace; return the reason if it could not be kept."""
    return folder.write(f"{key}.trace", layout.encode_trace(trace))


def load_blob(key: str, name: str) -> bytes | None:
    """Return the bytes that were kept under a key and a name; ``None`` if none, or damaged."""
    try:
        path = folder.find_file(_blob_name(key, name))
        data = b"" if path is None else path.read_bytes()
    except OSError:
        return None
    if len(data) < _HEAD.size:
        return None
    magic, length, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    is_sound = magic == _MAGIC and len(body) == length and zlib.crc32(body) == checksum
    return body if is_sound else None


def save_blob(key: str, name: str, data: bytes) -> str | None:
    """Keep some bytes under a key and a name; return the reason if they could not be kept."""
    return folder.write(
        _blob_name(key, name), [_HEAD.pack(_MAGIC, len(data), zlib.crc32(data)), data]
    )


def _blob_name(key: str, name: str) -> str:
    safe_name = name if _NAME.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()
    return f"{key}.{safe_name}.blob"
