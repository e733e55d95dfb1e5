"""Transfer what the processes wrote, from the spool on a local disk into the run folder.

The run folder may be slow, full, gone, and come back: a log there is always the beginning of the
one in the spool, so that a transfer goes on from its length, whatever happened meanwhile.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from isal import igzip
from msgspec import Struct, field

from gapless.launch.unobserved import Journal

_CHUNK_BYTES: Final = 1 << 20
_TRY_AGAIN_S: Final = 30.0  # a window that could not be saved: packing it again costs a second
_WINDOW_SUFFIX: Final = ".json"  # how the name of a whole window ends
UNFINISHED_MARK: Final = ".part"


class SpoolTransfer(Struct):
    """What is transferred from where to where, and how far."""

    spool: Path
    folder: Path
    journal: Journal
    _carried_sizes: dict[str, int] = field(default_factory=dict[str, int])
    _retry_times: dict[str, float] = field(default_factory=dict[str, float])

    def sweep(self, *, is_last: bool = False) -> bool:
        """Transfer what is new; return whether nothing is left behind."""
        logs_complete = self.carry_logs()
        return self.carry_windows(is_last=is_last) and logs_complete

    def carry_logs(self) -> bool:
        """Transfer what is new in logs; return whether nothing is left behind."""
        logs = _files(self.spool, ".log")
        successes = [self._carry_log(entry.name, entry.stat().st_size) for entry in logs]
        return all(successes)  # one that cannot be transferred does not hold up the others

    def carry_windows(self, *, is_last: bool = False) -> bool:
        """Pack the windows that are saved; return whether none is left behind."""
        windows = _files(self.spool / "windows", _WINDOW_SUFFIX)
        successes = [self._carry_window(Path(entry.path), is_last) for entry in windows]
        return all(successes)

    def forget_sizes(self) -> None:
        """Look at every log again, new or not: the folder may have lost it."""
        self._carried_sizes.clear()

    def _carry_log(self, name: str, size: int) -> bool:
        if self._carried_sizes.get(name) == size:
            return True
        try:
            self._carried_sizes[name] = append_new(self.spool / name, self.folder / "logs" / name)
        except OSError as error:
            self.journal.note("run folder", f"{error.strerror}: {self.folder}")
            return False
        return True

    def _carry_window(self, path: Path, is_last: bool) -> bool:  # noqa: FBT001
        if not is_last and self._retry_times.get(path.name, 0.0) > time.monotonic():
            return False
        try:
            pack(path, self.folder / "windows")
            path.unlink()
        except OSError as error:
            self._retry_times[path.name] = time.monotonic() + _TRY_AGAIN_S
            self.journal.note("windows", f"{error.strerror}: {self.folder / 'windows'}")
            return False
        return True


def _files(folder: Path, suffix: str = "") -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        yield from (entry for entry in entries if entry.name.endswith(suffix) and entry.is_file())


def append_new(source: Path, target: Path) -> int:
    """Append to the target what the source has more of; return its length. Raises ``OSError``."""
    target.parent.mkdir(parents=True, exist_ok=True)
    reading = os.open(source, os.O_RDONLY)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            length = os.fstat(writing).st_size
            while chunk := os.pread(reading, _CHUNK_BYTES, length):
                length += os.write(writing, chunk)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return length


def pack(path: Path, folder: Path) -> None:
    """Write a file compressed into a folder, whole or not at all. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / (path.name + ".gz" + UNFINISHED_MARK)
    try:
        with (
            path.open("rb") as source,
            igzip.IGzipFile(unfinished, "wb", compresslevel=1) as target,
        ):
            while chunk := source.read(_CHUNK_BYTES):
                target.write(chunk)
        unfinished.replace(folder / (path.name + ".gz"))
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def count_unsaved_bytes(spool: Path) -> int:
    """Return the bytes so far of windows that are being saved; 0 if none is."""
    sizes: list[int] = []
    for entry in _files(spool / "windows"):
        if UNFINISHED_MARK in entry.name:
            with suppress(FileNotFoundError):  # it is saved
                sizes.append(entry.stat().st_size + 1)
    return sum(sizes)


def remove(spool: Path) -> None:
    """Remove a spool, all of which was transferred. Raises ``OSError``."""
    for folder, folders, files in os.walk(spool, topdown=False):
        for name in files:
            (Path(folder) / name).unlink(missing_ok=True)
        for name in folders:
            (Path(folder) / name).rmdir()
    spool.rmdir()
