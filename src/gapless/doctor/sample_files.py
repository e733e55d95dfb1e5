"""Files of a data set, chosen at random without listing all of it."""

import os
import random
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_FILES: Final = 256
_MAX_ENTRIES: Final = 20_000  # that are looked at
_MAX_S: Final = 2.0  # that looking may take


def choose_files(path: Path) -> tuple[str, ...]:
    """Return up to 256 regular files of a folder, or the file itself; symbolic links count.

    Of a large data set, of what could be listed in two seconds. Raises ``OSError`` for a path
    that cannot be looked at.
    """
    if not path.is_dir():
        return (str(path),) if stat.S_ISREG(path.stat().st_mode) else ()
    files = list(_list_files(path))
    return tuple(random.sample(files, min(MAX_FILES, len(files))))


def _list_files(path: Path) -> Iterator[str]:
    """Yield files of a folder and those below, folders in random order, until time is up."""
    until, count = time.monotonic() + _MAX_S, 0
    folders = [os.fspath(path)]
    while folders:
        folder = folders.pop(random.randrange(len(folders)))  # noqa: S311
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > _MAX_ENTRIES or time.monotonic() > until:
                    return
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():
                    yield entry.path
