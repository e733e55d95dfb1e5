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

from .figures import BYTES, NS, Measurement, make_absent, make_figure, rates, run_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .figures import ProbeConditions, ProbeFigure

_WRITE_BYTES = 4 << 20  # written at once
_READ_BYTES = 1 << 20  # read at once, in order
_MAX_FILE_BYTES = 128 << 20  # of the probe's own file
_MIN_FILE_BYTES = 1 << 20
_WRITE_SHARE = 0.4  # of the time
_SMALL_SIZES = (4 << 10, 128 << 10)
_READS = 32  # at random, between two looks at the clock
_MAX_FILES = 256
_FREE_FACTOR = 4  # times the file's size that must be free
_MAX_ROUNDS = 12
_MAX_RESIDENT_SHARE = 0.05  # of a file's pages: no more may be left in memory for it to be cold
_OWN_FILE_FIGURES = tuple(
    f"storage.{pattern}.{state}" for pattern in ("ordered", "random") for state in ("cold", "warm")
)
_GIVEN_FILE_FIGURES = tuple(f"storage.file.{state}" for state in ("cold", "warm"))


def measure_own_file(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around ``pread`` of a file of the probe's own, without a name, on that storage.

    It is up to 128 MiB of random bytes (``note``), written through. cold: the kernel was told to
    drop its pages (``posix_fadvise``), and ``mincore`` says that it did; caches of the disk, the
    host, a server are not emptied by it. warm: read before. storage.ordered: 1 MiB after the
    other; storage.random: 32 places at random, without reading ahead, for each read of so many
    bytes (``at``). In turns.
    """
    path = conditions.path or os.curdir
    folder = path if os.path.isdir(path) else os.path.dirname(path) or os.curdir  # noqa: PTH112, PTH120
    file = _open_unnamed(folder)
    try:
        until = time.monotonic() + _WRITE_SHARE * (conditions.until - time.monotonic())
        size = _fill_file(
            file, min(_MAX_FILE_BYTES, conditions.largest, _find_spare_bytes(folder)), until
        )
        if size < _MIN_FILE_BYTES:
            yield from _make_all_absent(
                _OWN_FILE_FIGURES, "too little room, or too slow to write 1 MiB"
            )
            return
        yield from _measure_reads(file, size, conditions.until)
    finally:
        os.close(file)


def _explain_no_path(conditions: ProbeConditions) -> str | None:
    return "no path was given" if conditions.path is None else None


def _explain_no_files(conditions: ProbeConditions) -> str | None:
    return None if conditions.files else "no files were given"


def _open_unnamed(folder: str) -> int:
    """Open a new file that has no name, so that nothing is left of it, however we end."""
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:  # this file system has none: named for a moment
            pass
    file, name = tempfile.mkstemp(prefix=".gapless-probe-", dir=folder)
    os.unlink(name)  # noqa: PTH108
    return file


def _find_spare_bytes(folder: str) -> int:
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize // _FREE_FACTOR


def _fill_file(file: int, max_bytes: int, until: float) -> int:
    """Write pieces through to the disk until it is enough, or late; return the bytes."""
    size = 0
    while size + _MIN_FILE_BYTES <= max_bytes and (not size or time.monotonic() < until):
        chunk = os.urandom(min(_WRITE_BYTES, max_bytes - size))
        size += os.write(file, chunk)
        os.fsync(file)
    return size // _MIN_FILE_BYTES * _MIN_FILE_BYTES


def _measure_reads(file: int, size: int, until: float) -> Iterator[ProbeFigure]:
    acts: dict[tuple[str, int | None], Callable[[], float]] = {}
    can_evict = _evict(file, size)
    for state, prepare in (("cold", _evict), ("warm", _warm)):
        if state == "warm" or can_evict:
            acts[f"storage.ordered.{state}", None] = partial(_time_in_order, file, size, prepare)
            for small in _SMALL_SIZES:
                if small * _READS <= size:
                    act = partial(_time_at_random, file, size, prepare, small)
                    acts[f"storage.random.{state}", small] = act
    note = f"a file of {size >> 20} MiB"
    for (name, small), series in run_rounds(acts, until, _MAX_ROUNDS).items():
        values = series.values if small else rates(float(size), series)
        yield make_figure(name, values, series.spent_s, small, note)
    if not can_evict:
        yield from _make_all_absent(
            [name for name in _OWN_FILE_FIGURES if name.endswith("cold")], _STAYS
        )


_STAYS = "the kernel keeps it in memory"


def _evict(file: int, size: int) -> bool:
    """Drop a file's pages from memory; return whether they are gone."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    return _resident_share(file, size) <= _MAX_RESIDENT_SHARE


def _warm(file: int, size: int) -> None:
    for offset in range(0, size, _READ_BYTES):
        os.pread(file, _READ_BYTES, offset)


def _time_in_order(file: int, size: int, prepare: Callable[[int, int], object]) -> float:
    prepare(file, size)
    began = time.perf_counter_ns()
    for offset in range(0, size, _READ_BYTES):
        os.pread(file, _READ_BYTES, offset)
    return time.perf_counter_ns() - began


def _time_at_random(
    file: int, size: int, prepare: Callable[[int, int], object], small: int
) -> float:
    prepare(file, size)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    blocks = random.sample(range(size // small), _READS)
    began = time.perf_counter_ns()
    for block in blocks:
        os.pread(file, small, block * small)
    took = time.perf_counter_ns() - began
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_NORMAL)
    return took / _READS


def _resident_share(file: int, size: int) -> float:
    """Return the share of a file's pages that are in memory; all, where that is not known."""
    page = mmap.PAGESIZE
    pages = (size + page - 1) // page
    page_flags = (ctypes.c_ubyte * pages)()
    with mmap.mmap(file, size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(start))
        failed = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), page_flags)
        del start
    return 1.0 if failed else sum(flag & 1 for flag in page_flags) / pages


def measure_given_files(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around open, read and close of files of the training's data, for each file.

    Up to 256 of those that were given, in an order of its own each round; ``note`` says how many
    and how large. cold: the kernel was told to drop their pages, and did; warm: read before.
    """
    files = random.sample(conditions.files, min(_MAX_FILES, len(conditions.files)))
    size = sum(map(_read_file, files))
    cold = sum(map(_drop_file, files)) == len(files)
    acts: dict[str, Any] = {"storage.file.warm": partial(_time_files, files, _read_file)}
    if cold:
        acts["storage.file.cold"] = partial(_time_files, files, _drop_file)
    else:
        yield make_absent("storage.file.cold", _STAYS)
    note = f"{len(files)} files of {size / len(files) / 1024:.0f} KiB each"
    for name, series in run_rounds(acts, conditions.until, _MAX_ROUNDS).items():
        yield make_figure(name, series.values, series.spent_s, None, note)


def _time_files(files: Sequence[str], prepare: Callable[[str], object]) -> float:
    for path in files:
        prepare(path)
    began = time.perf_counter_ns()
    for path in random.sample(files, len(files)):
        _read_file(path)
    return (time.perf_counter_ns() - began) / len(files)


def _read_file(path: str) -> int:
    with open(path, "rb") as file:  # noqa: PTH123 - as data sets do
        return len(file.read())


def _drop_file(path: str) -> bool:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        return not size or _evict(file, size)
    finally:
        os.close(file)


def _make_all_absent(names: Sequence[str], why: str) -> Iterator[ProbeFigure]:
    for name in names:
        yield make_absent(name, why)


MEASUREMENTS = (
    Measurement(
        "storage",
        measure_own_file,
        {name: BYTES if "ordered" in name else NS for name in _OWN_FILE_FIGURES},
        1.6,
        torch=False,
        explain_lack=_explain_no_path,
    ),
    Measurement(
        "storage",
        measure_given_files,
        dict.fromkeys(_GIVEN_FILE_FIGURES, NS),
        1.0,
        torch=False,
        explain_lack=_explain_no_files,
    ),
)
