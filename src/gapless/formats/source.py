"""Where traces are: files, folders, patterns, standard input; and what their names tell."""

import glob
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gapless.errors import NotFoundError, UsageError
from gapless.formats import chunks
from gapless.formats.stream import Text

STANDARD_INPUT: Final = "-"
_NAMED_LIKE_A_TRACE: Final = re.compile(r"\.json(?:\.gz|\.zst|\.zstd)?$", re.IGNORECASE)
_RANK: Final = re.compile(r"(?:^|[^a-z])rank[-_.= ]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?:^|\D)(\d{1,9})$")
_LARGEST_PLACE: Final = 2**31 - 1


@dataclass(frozen=True)
class Source:
    """A file that may hold a trace."""

    path: Path
    rank_from_name: int | None
    bytes: int


def find(paths: Sequence[str]) -> tuple[Source, ...]:
    """List the files that these paths name: files, folders (with all below), patterns.

    A file that is named itself is taken as it is. In folders, and among what a pattern matches,
    only what looks like a trace is taken. Each file comes once, those of a folder sorted by name.
    Raises ``NotFoundError`` where a path names nothing, ``UsageError`` for "-": see ``spool``.
    """
    found: dict[str, Source] = {}
    for path in paths:
        for file in _expanded(path):
            found.setdefault(os.path.realpath(file), _source(file))
    return tuple(found.values())


def _expanded(path: str) -> Iterable[Path]:
    if path == STANDARD_INPUT:
        msg = "standard input can only be read alone: give either - or paths"
        raise UsageError(msg)
    place = Path(path).expanduser()
    if place.is_dir():
        files = _in_folder(place)
    elif os.path.lexists(place):
        return [place]
    else:
        files = _matching(path)
    if not files:
        msg = f"{path}: no trace there (*.json, *.json.gz or *.json.zst with traceEvents in it)"
        raise NotFoundError(msg)
    return files


def _in_folder(folder: Path) -> list[Path]:
    files = [
        Path(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if _NAMED_LIKE_A_TRACE.search(name)
    ]
    return [file for file in sorted(files) if _looks_like_a_trace(file)]


def _matching(pattern: str) -> list[Path]:
    if not glob.has_magic(pattern):
        msg = f"{pattern}: no such file or folder"
        raise NotFoundError(msg)
    files: list[Path] = []
    for name in sorted(glob.glob(os.path.expanduser(pattern), recursive=True)):  # noqa: PTH207, PTH111  a pattern is no path
        place = Path(name)
        if place.is_dir():
            files += _in_folder(place)
        elif _looks_like_a_trace(place):
            files.append(place)
    return files


def _looks_like_a_trace(path: Path) -> bool:
    try:
        return chunks.starts_like_a_trace(Text(path).pieces())
    except OSError:
        return False


def _source(path: Path) -> Source:
    try:
        size = path.stat().st_size
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise NotFoundError(msg) from error
    return Source(path, rank_of(path), size)


@contextmanager
def spool(stream: BinaryIO) -> Generator[Path]:
    """Give a file that holds all of a stream (standard input); it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="gapless-") as name:
        path = Path(name, "standard-input", "trace.json")  # the same names each time, for the cache
        path.parent.mkdir()
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        yield path


def rank_of(path: Path) -> int | None:
    """Give the rank that a file's name, else its folder's name, states."""
    for name in (path.name, path.parent.name):
        found = _RANK.search(name)
        if found is not None:
            return int(found[1])
    return None


def number(place: int | str) -> int:
    """Give the number of a device's pid or tid ("stream 7" → 7); −1 if it has none."""
    if isinstance(place, int):
        return place if 0 <= place <= _LARGEST_PLACE else -1
    found = _NUMBER.search(place)
    return int(found[1]) if found is not None else -1
