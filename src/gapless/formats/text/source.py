"""Where traces are: files, folders, patterns, standard input; and what their names say."""

import glob
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Container, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from gapless.errors import GaplessError, NotATraceError, NotFoundError, UsageError
from gapless.formats.kinds import Kind, kind_of
from gapless.formats.text import chunks
from gapless.formats.text.stream import TraceText
from gapless.model.options import STANDARD_INPUT

_NAMED_LIKE_A_TRACE: Final = re.compile(
    r"\.json(?:\.gz|\.zst|\.zstd)?$|\.xplane\.pb(?:\.gz)?$|\.(?:pftrace|perfetto-trace)(?:\.gz)?$|\.sqlite$|\.nsys-rep$|\.qdrep$",
    re.IGNORECASE,
)
_VIEWED: Final = re.compile(r"\.trace\.json(?:\.gz)?$")
_RANK: Final = re.compile(r"(?:^|[^a-z])rank[-_.= ]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?:^|\D)(\d{1,9})$")
_MAX_NUMBER: Final = 2**31 - 1


def find(paths: Sequence[str]) -> tuple[Path, ...]:
    """List the files that these paths name: files, folders (with all below), patterns.

    A file that is named itself is taken as it is. In folders, and among what a pattern matches,
    only what looks like a trace is taken. Each file comes once, those of a folder sorted by name.
    What cannot be looked at is no reason to pass over it in silence: it is refused, or, a file of
    many, taken, so that reading it says why. Raises ``NotFoundError`` where a path names nothing,
    ``UsageError`` for a stream, see ``spool``, and ``NotATraceError`` for a device.
    """
    files_by_path: dict[str, Path] = {}
    for path in paths:
        for file in _expand_path(path):
            files_by_path.setdefault(os.path.realpath(file), _check_file(file))
    return tuple(files_by_path.values())


def _expand_path(path: str) -> Iterable[Path]:
    if is_stream(path):
        msg = f"{path}: standard input and pipes can only be read alone, without other paths"
        raise UsageError(msg)
    if not path:
        msg = "a path is empty; is it a variable of the shell that is not set?"
        raise NotFoundError(msg)
    try:
        files = _files(path)
    except OSError as error:
        msg = f"{error.filename or path}: {error.strerror or error}"
        raise NotFoundError(msg) from error
    if not files:
        msg = f"{path}: no trace there (*.json, *.json.gz or *.json.zst with traceEvents in it)"
        raise NotFoundError(msg)
    return files


def is_stream(path: str) -> bool:
    """Return whether a path can be read only once: standard input, a pipe of ``<(…)``."""
    if path == STANDARD_INPUT:
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116  Path("") would be the folder
    except (OSError, ValueError):  # there is no such file
        return False


def _files(path: str) -> list[Path]:
    entry = Path(os.path.expanduser(path))  # noqa: PTH111  Path's raises where there is no such user
    if entry.is_dir():
        return _traces_in_folder(entry)
    return [entry] if os.path.lexists(entry) else _expand_pattern(path)


def is_named_like_a_trace(name: str) -> bool:
    """Return whether a name ends as those of traces do."""
    return _NAMED_LIKE_A_TRACE.search(name) is not None


def _traces_in_folder(folder: Path) -> list[Path]:
    files = [
        Path(folder_path, name)
        for folder_path, _, names in os.walk(folder, onerror=_raise_unless_gone)
        for name in names
        if is_named_like_a_trace(name)
    ]
    names = {str(file) for file in files}
    return [
        file
        for file in sorted(files)
        if not _has_profile(file, names) and _looks_like_a_trace(file)
    ]


def _has_profile(file: Path, names: Container[str]) -> bool:
    """Return whether a file is what XLA's viewer made of a profile that lies beside it."""
    stem = _VIEWED.sub("", str(file))
    return stem != str(file) and f"{stem}.xplane.pb" in names


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # removed while we looked
        raise error


def _expand_pattern(pattern: str) -> list[Path]:
    if not glob.has_magic(pattern):
        msg = f"{pattern}: no such file or folder"
        raise NotFoundError(msg)
    files: list[Path] = []
    for name in sorted(glob.glob(os.path.expanduser(pattern), recursive=True)):  # noqa: PTH207, PTH111  a pattern is no path
        matched_path = Path(name)
        if matched_path.is_dir():
            files += _traces_in_folder(matched_path)
        elif _looks_like_a_trace(matched_path):
            files.append(matched_path)
    return files


def _looks_like_a_trace(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        if kind_of(path) is not Kind.CHROME:
            return True
        return chunks.starts_like_a_trace(TraceText(path).pieces())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _check_file(path: Path) -> Path:
    try:
        status = path.stat()
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise NotFoundError(msg) from error
    if not stat.S_ISREG(status.st_mode):
        msg = f"{path}: is a device, not a file"
        raise NotATraceError(msg)
    return path


@contextmanager
def spool(stream: BinaryIO) -> Generator[Path]:
    """Yield a file that holds all of a stream (standard input); it is removed afterwards.

    Raises ``GaplessError`` if there is no room for it.
    """
    with tempfile.TemporaryDirectory(prefix="gapless-") as name:
        path = Path(name, "standard-input", "trace.json")  # the same names each time, for the cache
        path.parent.mkdir()
        try:
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        except OSError as error:
            msg = f"{name}: {error.strerror or error}; set TMPDIR to a folder that has room"
            raise GaplessError(msg) from error
        yield path


def rank_of(path: Path) -> int | None:
    """Return the rank that a file's name, else its folder's name, states."""
    for name in (path.name, path.parent.name):
        match = _RANK.search(name)
        if match is not None:
            return int(match[1])
    return None


def device_number(pid_or_tid: int | str) -> int:
    """Return the number of a device's pid or tid ("stream 7" → 7); −1 if it has none."""
    if isinstance(pid_or_tid, int):
        return pid_or_tid if 0 <= pid_or_tid <= _MAX_NUMBER else -1
    match = _NUMBER.search(pid_or_tid)
    return int(match[1]) if match is not None else -1
