"""The traces that a training's own profiler wrote, copied into the run folder at the end.

The training's files are only read. Each goes beside the windows, compressed; what cannot be copied,
or is no trace, is told.
"""

import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from isal import igzip

from gapless import wire
from gapless.launch.unseen import Journal

if TYPE_CHECKING:
    from gapless.model.recording import Adopted

LIMIT: Final = 512 << 20  # bytes of traces, in all
_COMPRESSED: Final = 10  # times as much it is once it is read, about
_PIECE: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_HEAD: Final = 64  # bytes that show whether a file is JSON
_TOLD: Final = 8  # files of which it is told why they were not adopted
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_ENDING: Final = re.compile(r"(\.pt)?(\.trace)?\.json(\.gz)?$|\.gz$", re.IGNORECASE)
_NAME: Final = 60  # characters of a file's name that are kept


class _RefusedError(Exception):
    """A file is not adopted; why."""


@dataclass
class _Exports:
    """Which ranks wrote which file, in the order of the logs."""

    ranks: dict[str, set[int | None]] = field(default_factory=dict[str, set[int | None]])
    _rank: int | None = None

    def take(self, kind: int, told: dict[str, Any]) -> None:
        if kind == wire.PROCESS:
            rank = told.get("rank")
            self._rank = rank if isinstance(rank, int) else None
        elif told.get("kind") == "trace":
            for path in told.get("written") or ():
                if isinstance(path, str):
                    self.ranks.setdefault(path, set()).add(self._rank)


def adopt(
    spool: Path, folder: Path, journal: Journal, say: Callable[[str], None]
) -> "tuple[Adopted, ...]":
    """Copy what the logs in a spool say was exported; what is not adopted is noted, once each."""
    from gapless.model.recording import Adopted

    found, refused, left = list[Adopted](), list[tuple[str, str]](), LIMIT
    with journal.guard("traces of the training's own profiler"):
        for source, ranks in _exported(spool).items():
            say("copying the traces of the training's own profiler")
            name = _name(source, ranks, len(found))
            try:
                left -= _copied(source, folder / "windows" / name, left)
            except _RefusedError as error:
                refused.append((source, str(error)))
            except OSError as error:
                refused.append((source, error.strerror or str(error)))
            else:
                found.append(Adopted(source, f"windows/{name}"))
        _tell(refused, journal)
    return tuple(found)


def _tell(refused: Sequence[tuple[str, str]], journal: Journal) -> None:
    for source, why in refused[:_TOLD]:
        journal.note(f"{source}, of the training's own profiler", why)
    if len(refused) > _TOLD:
        more = f"{len(refused) - _TOLD} more were not adopted"
        journal.note("traces of the training's own profiler", more)


def _exported(spool: Path) -> dict[str, set[int | None]]:
    exports = _Exports()
    for log in sorted(spool.glob("rank*.log")):
        with suppress(OSError), log.open("rb") as file:
            for kind, told in _told(file):
                exports.take(kind, told)
    return exports.ranks


def _told(log: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Give the frames that tell of files and of who wrote them; all others are passed over."""
    while len(head := log.read(wire.HEADER.size)) == wire.HEADER.size:
        magic, kind, _, length, check = wire.HEADER.unpack(head)
        if magic != wire.MAGIC:
            return
        if kind not in {wire.PROCESS, wire.FILES}:
            log.seek(length, os.SEEK_CUR)
        elif zlib.crc32(body := log.read(length)) == check:
            yield kind, json.loads(body)


def _name(source: str, ranks: set[int | None], number: int) -> str:
    """Name a copy by the rank that wrote it, if that is one, and by the file's own name."""
    whose = f"rank{next(iter(ranks))}" if len(ranks) == 1 and None not in ranks else "ranks"
    own = _STRANGE.sub("_", _ENDING.sub("", os.path.basename(source)))[:_NAME]  # noqa: PTH119
    return f"{whose}-profiler{number + 1}-{own}.json.gz"


def _copied(source: str, target: Path, left: int) -> int:
    """Write a file compressed, whole or not at all; give what it counts of the limit."""
    with _opened(source) as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(_PIECE)
        packed = start.startswith(_GZIP)
        count = size * _COMPRESSED if packed else size
        if not _is_json(start, packed=packed):
            raise _RefusedError("it is no trace")
        if count > left:
            raise _RefusedError(f"it is beyond the limit of {LIMIT >> 20} MB in all")
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(target.name + ".part")
        try:
            with _writing(unfinished, packed=packed) as copy:
                copy.write(start)
                while piece := file.read(_PIECE):
                    copy.write(piece)
            unfinished.replace(target)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
    return count


def _opened(source: str) -> BinaryIO:
    """Open a file to read it; never wait for the other end of a pipe."""
    number = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _RefusedError("it is no file")
    return os.fdopen(number, "rb")


def _is_json(start: bytes, *, packed: bool) -> bool:
    """Tell whether a file begins as JSON does."""
    if packed:
        with suppress(zlib.error):
            start = zlib.decompressobj(wbits=31).decompress(start, _HEAD)
    return start.lstrip().startswith((b"{", b"["))


def _writing(path: Path, *, packed: bool) -> "BinaryIO | igzip.IGzipFile":
    """Open a file to write it; what is compressed already is written as it is."""
    return path.open("wb") if packed else igzip.IGzipFile(path, "wb", compresslevel=1)
