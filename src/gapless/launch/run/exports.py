"""The traces that a training's own profiler wrote, copied into the run folder at the end.

The training's files are only read. Each goes beside the windows, compressed; what cannot be copied,
or is no trace, is noted.
"""

import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from isal import igzip
from msgspec import Struct, field

from gapless import wire
from gapless.launch.unobserved import Journal

if TYPE_CHECKING:
    from gapless.model.recording import AdoptedTrace

LIMIT: Final = 512 << 20  # bytes of traces, in all
_COMPRESSION_RATIO: Final = 10  # times as much it is once it is read, about
_CHUNK_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_HEAD_BYTES: Final = 64  # bytes that show whether a file is JSON
_MAX_REASONS: Final = 8  # files for which it is noted why they were not adopted
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_TRACE_SUFFIX: Final = re.compile(r"(\.pt)?(\.trace)?\.json(\.gz)?$|\.gz$", re.IGNORECASE)
_MAX_NAME_LENGTH: Final = 60  # characters of a file's name that are kept


class _RefusedError(Exception):
    """A file is not adopted; why."""


class _Exports(Struct):
    """Which ranks wrote which file, in the order of the logs."""

    ranks: dict[str, set[int | None]] = field(default_factory=dict[str, set[int | None]])
    _rank: int | None = None

    def take_frame(self, kind: int, body: dict[str, Any]) -> None:
        if kind == wire.PROCESS:
            rank = body.get("rank")
            self._rank = rank if isinstance(rank, int) else None
        elif body.get("kind") == "trace":
            for path in body.get("written") or ():
                if isinstance(path, str):
                    self.ranks.setdefault(path, set()).add(self._rank)


def adopt(
    spool: Path, folder: Path, journal: Journal, report_progress: Callable[[str], None]
) -> "tuple[AdoptedTrace, ...]":
    """Copy what the logs in a spool say was exported; what is not adopted is noted, once each."""
    from gapless.model.recording import AdoptedTrace

    adopted, refusals, remaining = list[AdoptedTrace](), list[tuple[str, str]](), LIMIT
    with journal.guard("traces of the training's own profiler"):
        for source, ranks in _find_exports(spool).items():
            report_progress("copying the traces of the training's own profiler")
            name = _name_copy(source, ranks, len(adopted))
            try:
                remaining -= _copy_compressed(source, folder / "windows" / name, remaining)
            except _RefusedError as error:
                refusals.append((source, str(error)))
            except OSError as error:
                refusals.append((source, error.strerror or str(error)))
            else:
                adopted.append(AdoptedTrace(source, f"windows/{name}"))
        _note_refusals(refusals, journal)
    return tuple(adopted)


def _note_refusals(refusals: Sequence[tuple[str, str]], journal: Journal) -> None:
    for source, why in refusals[:_MAX_REASONS]:
        journal.note(f"{source}, of the training's own profiler", why)
    if len(refusals) > _MAX_REASONS:
        sentence = f"{len(refusals) - _MAX_REASONS} more were not adopted"
        journal.note("traces of the training's own profiler", sentence)


def _find_exports(spool: Path) -> dict[str, set[int | None]]:
    exports = _Exports()
    for log in sorted(spool.glob("rank*.log")):
        with suppress(OSError), log.open("rb") as file:
            for kind, body in _read_frames(file):
                exports.take_frame(kind, body)
    return exports.ranks


def _read_frames(log: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the frames about files and about who wrote them; all others are passed over."""
    while len(head := log.read(wire.HEADER.size)) == wire.HEADER.size:
        magic, kind, _, length, check = wire.HEADER.unpack(head)
        if magic != wire.MAGIC:
            return
        if kind not in {wire.PROCESS, wire.FILES}:
            log.seek(length, os.SEEK_CUR)
        elif zlib.crc32(body := log.read(length)) == check:
            yield kind, json.loads(body)


def _name_copy(source: str, ranks: set[int | None], number: int) -> str:
    """Name a copy by the rank that wrote it, if that is one, and by the file's own name."""
    writer = f"rank{next(iter(ranks))}" if len(ranks) == 1 and None not in ranks else "ranks"
    base_name = _TRACE_SUFFIX.sub("", os.path.basename(source))  # noqa: PTH119
    file_name = _UNSAFE_CHARACTERS.sub("_", base_name)[:_MAX_NAME_LENGTH]
    return f"{writer}-profiler{number + 1}-{file_name}.json.gz"


def _copy_compressed(source: str, target: Path, remaining: int) -> int:
    """Write a file compressed, whole or not at all; return how much of the limit it takes."""
    with _open_source(source) as file:
        size, head = os.fstat(file.fileno()).st_size, file.read(_CHUNK_BYTES)
        packed = head.startswith(_GZIP)
        charged_bytes = size * _COMPRESSION_RATIO if packed else size
        if not _is_json(head, packed=packed):
            raise _RefusedError("it is no trace")
        if charged_bytes > remaining:
            raise _RefusedError(f"it is beyond the limit of {LIMIT >> 20} MB in all")
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(target.name + ".part")
        try:
            with _open_target(unfinished, packed=packed) as copy:
                copy.write(head)
                while chunk := file.read(_CHUNK_BYTES):
                    copy.write(chunk)
            unfinished.replace(target)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
    return charged_bytes


def _open_source(source: str) -> BinaryIO:
    """Open a file to read it; never wait for the other end of a pipe."""
    number = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _RefusedError("it is no file")
    return os.fdopen(number, "rb")


def _is_json(head: bytes, *, packed: bool) -> bool:
    """Return whether a file begins as JSON does."""
    if packed:
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
    return head.lstrip().startswith((b"{", b"["))


def _open_target(path: Path, *, packed: bool) -> "BinaryIO | igzip.IGzipFile":
    """Open a file to write it; what is compressed already is written as it is."""
    return path.open("wb") if packed else igzip.IGzipFile(path, "wb", compresslevel=1)
