"""How fast the storage of the training's data is read: in order, at random, small files."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from .figures import BYTES, NS, Measurement, absent, figure, rates, rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .figures import Figure, Room

_PIECE = 4 << 20  # written at once
_BLOCK = 1 << 20  # read at once, in order
_MOST = 128 << 20  # of the probe's own file
_LEAST = 1 << 20
_WRITING = 0.4  # of the time
_SMALL = (4 << 10, 128 << 10)
_READS = 32  # at random, between two looks at the clock
_FILES = 256
_FREE = 4  # times the file's size that must be free
_ROUNDS = 12
_RESIDENT = 0.05  # of a file's pages: no more may be left in memory for it to be cold
_OWN = tuple(
    f"storage.{how}.{state}" for how in ("ordered", "random") for state in ("cold", "warm")
)
_GIVEN = tuple(f"storage.file.{state}" for state in ("cold", "warm"))


def own_file(room: Room) -> Iterator[Figure]:
    """Host clock around ``pread`` of a file of the probe's own, without a name, on that storage.

    It is up to 128 MiB of random bytes (``note``), written through. cold: the kernel was told to
    drop its pages (``posix_fadvise``), and ``mincore`` says that it did; caches of the disk, the
    host, a server are not emptied by it. warm: read before. storage.ordered: 1 MiB after the
    other; storage.random: 32 places at random, without reading ahead, for each read of so many
    bytes (``at``). In turns.
    """
    path = room.path or os.curdir
    folder = path if os.path.isdir(path) else os.path.dirname(path) or os.curdir  # noqa: PTH112, PTH120
    file = _unnamed(folder)
    try:
        until = time.monotonic() + _WRITING * (room.until - time.monotonic())
        size = _fill(file, min(_MOST, room.largest, _spare(folder)), until)
        if size < _LEAST:
            yield from _all(_OWN, "too little room, or too slow to write 1 MiB")
            return
        yield from _read(file, size, room.until)
    finally:
        os.close(file)


def _placeless(room: Room) -> str | None:
    return "no path was given" if room.path is None else None


def _fileless(room: Room) -> str | None:
    return None if room.files else "no files were given"


def _unnamed(folder: str) -> int:
    """Open a new file that has no name, so that nothing is left of it, however we end."""
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:  # this file system has none: named for a moment
            pass
    file, name = tempfile.mkstemp(prefix=".gapless-probe-", dir=folder)
    os.unlink(name)  # noqa: PTH108
    return file


def _spare(folder: str) -> int:
    told = os.statvfs(folder)
    return told.f_bavail * told.f_frsize // _FREE


def _fill(file: int, most: int, until: float) -> int:
    """Write pieces through to the disk until it is enough, or late; give the bytes."""
    size = 0
    while size + _LEAST <= most and (not size or time.monotonic() < until):
        piece = os.urandom(min(_PIECE, most - size))
        size += os.write(file, piece)
        os.fsync(file)
    return size // _LEAST * _LEAST


def _read(file: int, size: int, until: float) -> Iterator[Figure]:
    acts: dict[tuple[str, int | None], Callable[[], float]] = {}
    colds = _evict(file, size)
    for state, before in (("cold", _evict), ("warm", _heat)):
        if state == "warm" or colds:
            acts[f"storage.ordered.{state}", None] = partial(_ordered, file, size, before)
            for small in _SMALL:
                if small * _READS <= size:
                    act = partial(_scattered, file, size, before, small)
                    acts[f"storage.random.{state}", small] = act
    note = f"a file of {size >> 20} MiB"
    for (name, small), series in rounds(acts, until, _ROUNDS).items():
        values = series.values if small else rates(float(size), series)
        yield figure(name, values, series.spent_s, small, note)
    if not colds:
        yield from _all([name for name in _OWN if name.endswith("cold")], _STAYS)


_STAYS = "the kernel keeps it in memory"


def _evict(file: int, size: int) -> bool:
    """Drop a file's pages from memory; tell whether they are gone."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return _resident(file, size) <= _RESIDENT


def _heat(file: int, size: int) -> None:
    for place in range(0, size, _BLOCK):
        os.pread(file, _BLOCK, place)


def _ordered(file: int, size: int, before: Callable[[int, int], object]) -> float:
    before(file, size)
    began = time.perf_counter_ns()
    for place in range(0, size, _BLOCK):
        os.pread(file, _BLOCK, place)
    return time.perf_counter_ns() - began


def _scattered(file: int, size: int, before: Callable[[int, int], object], small: int) -> float:
    before(file, size)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    places = random.sample(range(size // small), _READS)
    began = time.perf_counter_ns()
    for place in places:
        os.pread(file, small, place * small)
    took = time.perf_counter_ns() - began
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)
    return took / _READS


def _resident(file: int, size: int) -> float:
    """Give the share of a file's pages that are in memory; all, where the kernel does not tell."""
    page = mmap.PAGESIZE
    pages = (size + page - 1) // page
    seen = (ctypes.c_ubyte * pages)()
    with mmap.mmap(file, size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(start))
        failed = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), seen)
        del start
    return 1.0 if failed else sum(one & 1 for one in seen) / pages


def given_files(room: Room) -> Iterator[Figure]:
    """Host clock around open, read and close of files of the training's data, for each file.

    Up to 256 of those that were given, in an order of its own each round; ``note`` says how many
    and how large. cold: the kernel was told to drop their pages, and did; warm: read before.
    """
    files = random.sample(room.files, min(_FILES, len(room.files)))
    size = sum(map(_whole, files))
    cold = sum(map(_dropped, files)) == len(files)
    acts: dict[str, Any] = {"storage.file.warm": partial(_each, files, _whole)}
    if cold:
        acts["storage.file.cold"] = partial(_each, files, _dropped)
    else:
        yield absent("storage.file.cold", _STAYS)
    note = f"{len(files)} files of {size / len(files) / 1024:.0f} KiB each"
    for name, series in rounds(acts, room.until, _ROUNDS).items():
        yield figure(name, series.values, series.spent_s, None, note)


def _each(files: Sequence[str], before: Callable[[str], object]) -> float:
    for path in files:
        before(path)
    began = time.perf_counter_ns()
    for path in random.sample(files, len(files)):
        _whole(path)
    return (time.perf_counter_ns() - began) / len(files)


def _whole(path: str) -> int:
    with open(path, "rb") as file:  # noqa: PTH123 - as data sets do
        return len(file.read())


def _dropped(path: str) -> bool:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        return not size or _evict(file, size)
    finally:
        os.close(file)


def _all(names: Sequence[str], why: str) -> Iterator[Figure]:
    for name in names:
        yield absent(name, why)


MEASUREMENTS = (
    Measurement(
        "storage",
        own_file,
        {name: BYTES if "ordered" in name else NS for name in _OWN},
        1.6,
        torch=False,
        lacks=_placeless,
    ),
    Measurement(
        "storage", given_files, dict.fromkeys(_GIVEN, NS), 1.0, torch=False, lacks=_fileless
    ),
)
