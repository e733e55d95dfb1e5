"""Take files out of the page cache, so that an arm reads them from where they lie."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gapless.model.recording import Recording

_MOST: Final = 200_000  # files
_SECONDS: Final = 20.0  # to drop them; what is left then stays


@dataclass(frozen=True)
class Dropped:
    """What was asked to be taken out of the page cache."""

    files: int
    bytes: int
    left: int  # files that there was no time for, or that could not be opened


def files(recording: Recording) -> tuple[Path, ...]:
    """Give the files that a recorded run's fetches read, and their neighbours of the same kind.

    A run notes the paths of some fetches, and another arm draws other samples of the same folder.
    """
    here = Path(recording.manifest.folder)
    read = {here / name for one in recording.processes for name in one.read if name}
    kinds: dict[Path, set[str]] = {}
    for path in read:
        kinds.setdefault(path.parent, set()).add(path.suffix)
    found = {path for path in read if path.is_file()}
    for folder in sorted(kinds):
        found.update(_neighbours(folder, kinds[folder], _MOST - len(found)))
    return tuple(sorted(found))


def _neighbours(folder: Path, kinds: set[str], most: int) -> list[Path]:
    found: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(found) >= most:
                break
            if Path(entry.name).suffix in kinds and entry.is_file():
                found.append(Path(entry.path))
    return found


def drop(paths: Iterable[Path], seconds: float = _SECONDS) -> Dropped:
    """Take files out of the page cache, as far as nobody has them mapped or has just written them.

    The kernel is asked (``posix_fadvise``), and need not follow.
    """
    until = time.monotonic() + seconds
    count = size = left = 0
    for path in paths:
        if time.monotonic() > until:
            left += 1
            continue
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            left += 1
            continue
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            count, size = count + 1, size + os.fstat(file).st_size
        finally:
            os.close(file)
    return Dropped(count, size, left)
