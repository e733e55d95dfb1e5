"""A folder of files that may vanish: written completely or not at all, evicted by last use."""

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_DEFAULT_BYTES: Final = 4 << 30
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_UNFINISHED: Final = ".unfinished-"
_ABANDONED_S: Final = 3600  # no writer takes that long

Buffer = bytes | bytearray | memoryview


def cache_folder() -> Path:
    """Return the cache folder: ``$GAPLESS_CACHE``, else where this system keeps caches."""
    configured = os.environ.get("GAPLESS_CACHE")
    if configured:
        return Path(configured).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and Path(shared).is_absolute():  # the standard says to ignore a relative one
        return Path(shared) / "gapless"
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  Path.home() raises where there is none
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "gapless"


def size_limit() -> int:
    """Return the size limit of the cache: ``$GAPLESS_CACHE_SIZE`` ("500M", "2G"), else 4 GB."""
    text = os.environ.get("GAPLESS_CACHE_SIZE", "").strip().upper().removesuffix("B")
    unit = _UNITS.get(text[-1:], 1)
    try:
        return max(0, int(float(text.rstrip("KMGT")) * unit))
    except (ValueError, OverflowError):
        return _DEFAULT_BYTES


def write(name: str, buffers: Iterable[Buffer]) -> str | None:
    """Write a complete file, then make room; return the reason if it could not be written."""
    folder = cache_folder()
    pieces = list(buffers)
    if sum(map(len, pieces)) > size_limit():
        return "larger than the cache may be"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(folder, name, pieces)
        _make_room(folder, kept_name=name)
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return None


def _replace(folder: Path, name: str, buffers: Iterable[Buffer]) -> None:
    handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            for buffer in buffers:
                file.write(buffer)
        os.replace(unfinished, folder / name)  # noqa: PTH105  the same thing, said shorter
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)  # noqa: PTH108
        raise


def _make_room(folder: Path, kept_name: str) -> None:
    """Remove the least recently used files until the rest fits, and what killed writers left."""
    files: list[tuple[float, int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may remove it meanwhile
                status = entry.stat()
                files.append((status.st_mtime, status.st_size, entry.name))
    excess_bytes = sum(size for _, size, _ in files) - size_limit()
    oldest_writer = time.time() - _ABANDONED_S
    for used_s, size, name in sorted(files):
        is_abandoned = name.startswith(_UNFINISHED) and used_s < oldest_writer
        if is_abandoned or (
            excess_bytes > 0 and name != kept_name and not name.startswith(_UNFINISHED)
        ):
            with suppress(OSError):
                (folder / name).unlink()
            excess_bytes -= size


def find_file(name: str) -> Path | None:
    """Return the path of a file, marked as used now; ``None`` if there is none."""
    path = cache_folder() / name
    if not path.is_file():
        return None
    with suppress(OSError):  # a read-only cache is useful nevertheless
        os.utime(path)
    return path
