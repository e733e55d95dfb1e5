"""How fast files of the training's data are read: by one reader, and by several at a time."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from .figures import BYTES, NS, Measurement, make_absent, make_figure, run_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .figures import ProbeConditions, ProbeFigure, RoundSeries

_CHUNK_BYTES = 16 << 20  # of a file, at most: of a larger one, so much from a place in it
_READ_BYTES = 1 << 20  # read at once
_MAX_BYTES = 512 << 20  # of all that is read in a round
_SELECT_S = 0.7  # for the first look, which chooses how much a round reads
# Of what is in memory, threads of one process copy no more than one does.
_READERS = {"cold": (1, 8), "warm": (1,)}
_MAX_RESIDENT_SHARE = 0.05  # of the pages: no more may be left in memory for it to be cold
_STATES = ("cold", "warm")
_ORDERED = "ordered"
_STAYS = "the kernel keeps it in memory"
_NAMES = tuple(
    f"data.{kind}.{state}" for kind in ("rate", "file") for state in (*_STATES, _ORDERED)
)


class FilePiece(NamedTuple):
    """A file, or a part of a large one."""

    path: str
    offset: int
    size: int


def measure_reads(conditions: ProbeConditions) -> Iterator[ProbeFigure]:
    """Host clock around open, read and close of the files that were given (``at``: readers).

    data.rate: bytes a second; data.file: time for each file, of all readers together. Of a file
    larger than 16 MiB so much is read, from some place in it. cold: the kernel was told to drop
    these pages (``posix_fadvise``), and ``mincore`` says that it did; warm: read before; ordered:
    as cold, where that can be, by one reader in the order of their names, where numbers of readers
    were asked for. In turns, in an order of its own each round. Nothing is written.
    """
    pieces, why = _select_pieces(conditions.files)
    if not pieces:
        for name in _NAMES:
            yield make_absent(name, why or "the files are empty")
        return
    is_cold = sum(map(drop_piece, pieces)) == len(pieces)
    states: dict[str, Callable[[FilePiece], object]] = {"warm": read_piece}
    if is_cold:
        states = {"cold": drop_piece, **states}
    acts = {
        (state, readers): partial(_time_readers, pieces, readers, prepare)
        for state, prepare in states.items()
        for readers in (conditions.readers if state == "cold" else ()) or _READERS[state]
    }
    if conditions.readers:
        prepare = states.get("cold", read_piece)
        acts[_ORDERED, 1] = partial(_time_readers, sorted(pieces), 1, prepare, in_order=True)
    total = sum(piece.size for piece in pieces)
    note = f"{len(pieces)} files, {total / len(pieces) / 1024:.0f} KiB of each"
    for (state, readers), series in run_rounds(acts, conditions.until).items():
        yield from _make_figures(state, readers, series, (total, len(pieces)), note)
    if not is_cold:
        yield make_absent("data.rate.cold", _STAYS)
        yield make_absent("data.file.cold", _STAYS)


def _make_figures(
    state: str, readers: int, series: RoundSeries, amount: tuple[int, int], note: str
) -> Iterator[ProbeFigure]:
    total, count = amount
    speeds = [total * 1e9 / ns for ns in series.values if ns > 0]
    yield make_figure(f"data.rate.{state}", speeds, series.spent_s, readers, note)
    file_ns = [ns / count for ns in series.values]
    yield make_figure(f"data.file.{state}", file_ns, series.spent_s, readers, note)


def _select_pieces(files: Sequence[str]) -> tuple[list[FilePiece], str | None]:
    """Return what each round reads: as much as a first look manages in its time."""
    pieces: list[FilePiece] = []
    total, why, began = 0, None, time.monotonic()
    for path in files:
        try:
            size = os.stat(path).st_size  # noqa: PTH116
            chunk = min(size, _CHUNK_BYTES)
            (block,) = random.sample(range((size - chunk) // mmap.PAGESIZE + 1), 1)
            piece = FilePiece(path, block * mmap.PAGESIZE, chunk)
            drop_piece(piece)  # what is in memory by chance says little of the time it takes
            if chunk and read_piece(piece):
                pieces.append(piece)
                total += chunk
        except OSError as error:
            why = f"{path}: {error.strerror}"
        if total > _MAX_BYTES or time.monotonic() - began > _SELECT_S:
            break
    return pieces, why


def _time_readers(
    pieces: Sequence[FilePiece],
    readers: int,
    prepare: Callable[[FilePiece], object],
    *,
    in_order: bool = False,
) -> float:
    """Return the ns that so many readers take for all pieces; reading holds no interpreter lock."""
    for piece in pieces:
        prepare(piece)
    ordered = pieces if in_order else random.sample(pieces, len(pieces))
    threads = [
        threading.Thread(target=_read_all, args=(ordered[number::readers],), daemon=True)
        for number in range(readers)
    ]
    began = time.perf_counter_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter_ns() - began


def _read_all(pieces: Sequence[FilePiece]) -> None:
    for piece in pieces:
        read_piece(piece)


def read_piece(piece: FilePiece) -> int:
    """Read a piece; return its bytes. Raises ``OSError``."""
    file = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        count = 0
        while count < piece.size:
            wanted = min(_READ_BYTES, piece.size - count)
            data = os.pread(file, wanted, piece.offset + count)
            if not data:
                break
            count += len(data)
        return count
    finally:
        os.close(file)


def drop_piece(piece: FilePiece) -> bool:
    """Drop a piece's pages from memory; return whether they are gone."""
    file = os.open(piece.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(file, piece.offset, piece.size, os.POSIX_FADV_DONTNEED)
        return _resident_share(file, piece) <= _MAX_RESIDENT_SHARE
    except (OSError, ValueError):  # a file system that cannot map files
        return False
    finally:
        os.close(file)


def _resident_share(file: int, piece: FilePiece) -> float:
    """Return the share of a piece's pages that are in memory; all, where that is not known."""
    granule = mmap.ALLOCATIONGRANULARITY
    start = piece.offset // granule * granule
    length = piece.offset + piece.size - start
    pages = (length + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    flags = (ctypes.c_ubyte * pages)()
    with mmap.mmap(file, length, access=mmap.ACCESS_COPY, offset=start) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(length), flags)
        del first
    return 1.0 if failed else sum(flag & 1 for flag in flags) / pages


def _explain_no_files(conditions: ProbeConditions) -> str | None:
    return None if conditions.files else "no files were given"


MEASUREMENTS = (
    Measurement(
        "data",
        measure_reads,
        {name: BYTES if ".rate." in name else NS for name in _NAMES},
        6.0,
        torch=False,
        explain_lack=_explain_no_files,
    ),
)
