"""Take files out of the page cache, so that an arm reads them from where they lie."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.model.facts import Facts
from gapless.model.recording import Recording

_MAX_FILES: Final = 200_000  # files
_DROP_S: Final = 20.0  # to drop them; what remains then stays
# Of a fetch: above that, reads of the disk are part of what is measured.
_MIN_BLOCKED_SHARE: Final = 0.02


class CacheDrop(Struct, frozen=True):
    """What was to be dropped from the page cache."""

    files: int
    bytes: int
    skipped: int  # files that there was no time for, or that could not be opened


def find_cold_files(recording: Recording, facts: Facts) -> tuple[Path, ...]:
    """Return the files to drop from memory before each arm: where the run waited for its disk."""
    waits_for_disk = any(
        (loader.blocked or 0.0) > _MIN_BLOCKED_SHARE for loader in facts.loaders if loader.trains
    )
    reads_disk = any(
        (process.batches.columns["bytes_from_disk"] > 0).any()
        for process in recording.processes
        if len(process.batches)
    )
    return find_files(recording) if waits_for_disk and reads_disk else ()


def find_files(recording: Recording) -> tuple[Path, ...]:
    """Return the files that a recorded run's fetches read, and their neighbours of the same kind.

    A run notes the paths of some fetches, and another arm draws other samples of the same folder.
    """
    working_folder = Path(recording.manifest.folder)
    read_paths = {
        working_folder / name for process in recording.processes for name in process.read if name
    }
    kinds: dict[Path, set[str]] = {}
    for path in read_paths:
        kinds.setdefault(path.parent, set()).add(path.suffix)
    existing = {path for path in read_paths if path.is_file()}
    for folder in sorted(kinds):
        existing.update(_find_neighbours(folder, kinds[folder], _MAX_FILES - len(existing)))
    return tuple(sorted(existing))


def _find_neighbours(folder: Path, kinds: set[str], max_count: int) -> list[Path]:
    neighbours: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(neighbours) >= max_count:
                break
            if Path(entry.name).suffix in kinds and entry.is_file():
                neighbours.append(Path(entry.path))
    return neighbours


def drop(paths: Iterable[Path], seconds: float = _DROP_S) -> CacheDrop:
    """Take files out of the page cache, as far as nobody has them mapped or has just written them.

    The kernel is asked (``posix_fadvise``), and need not comply.
    """
    deadline = time.monotonic() + seconds
    count = size = skipped = 0
    for path in paths:
        if time.monotonic() > deadline:
            skipped += 1
            continue
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            skipped += 1
            continue
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            count, size = count + 1, size + os.fstat(file).st_size
        finally:
            os.close(file)
    return CacheDrop(count, size, skipped)
