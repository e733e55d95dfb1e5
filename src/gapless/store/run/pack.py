"""A run as one file to send.

Only the originals of a run are packed, under its id: the manifest, logs, windows. The sender's home
folder is replaced by ``~``. Of the environment only what the recorder may note is in it
(``payload.hooks.precision``), and nothing that is derived.
"""

import gzip
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec
import zstandard
from msgspec import Struct

from gapless import wire
from gapless.errors import GaplessError, UsageError
from gapless.store import columns
from gapless.store.atomic import write_atomically
from gapless.store.logs.logs import open_log
from gapless.store.run import manifest, recovery
from gapless.store.run.recordings import load

SUFFIXES: Final = (".tar.zst", ".zip")
_PIECE: Final = 1 << 20
_IN_MEMORY: Final = 32 << 20
_LEVEL: Final = 6  # of zstandard
_GZIP: Final = 1  # level; it is packed once and read once
_Add = Callable[[str, IO[bytes]], None]
_Hide = Callable[[bytes], bytes]


class _Bytes(Protocol):
    """What is read piece by piece: the common protocol of gzip, zstandard and plain files."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self) -> bytes: ...


class _Sink(Protocol):
    """What is written piece by piece; the same for writing."""

    def write(self, data: bytes, /) -> object: ...


class Member(Struct, frozen=True):
    """A file that was packed or unpacked, and its size there."""

    name: str
    bytes: int


class PackedRun(Struct, frozen=True):
    """What a packed run holds."""

    path: Path
    members: tuple[Member, ...]
    left_out: tuple[str, ...]  # windows that are damaged


def pack(run: Path, target: Path) -> PackedRun:
    """Write a run into one file, completely or not at all.

    Raises ``UsageError`` for a name with an unknown suffix or that exists, ``RunFolderError`` for a
    folder that is not a run or cannot be read, ``OSError`` where the file cannot be written.
    """
    writer = next(
        (packer for suffix, packer in _FORMS.items() if target.name.endswith(suffix)), None
    )
    if writer is None:
        raise UsageError(f"{target} ends in neither {' nor '.join(SUFFIXES)}")
    if target.exists():
        raise UsageError(f"{target} is there already")
    ident = re.sub(r"[^\w.-]", "_", run.resolve().name, flags=re.ASCII).lstrip(".")
    members: list[Member] = []
    left_out: list[str] = []
    with write_atomically(target) as unfinished, writer(unfinished) as add:
        for name, body in _contents(run):
            if body is None:
                left_out.append(name)
                continue
            with body:
                members.append(Member(name, body.seek(0, io.SEEK_END)))
                add(f"{ident}/{name}", body)
    return PackedRun(target, tuple(members), tuple(left_out))


def _contents(run: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Return the files of a run by name, as they are sent; ``None`` for one that is damaged."""
    hide = _home_hider()
    load(run)  # brings what a killed launcher left elsewhere
    members = msgspec.to_builtins(manifest.read(run).manifest)
    manifest_object = {"version": manifest.VERSION, **members}
    yield wire.MANIFEST, io.BytesIO(hide(json.dumps(manifest_object, indent=2).encode()))
    for log in recovery.find_logs(run, None):
        yield log.relative_to(run).as_posix(), io.BytesIO(_log(log, hide))
    for window in sorted((run / recovery.WINDOWS).glob("rank*.json*")):
        is_packed = window.suffix == columns.SUFFIX
        body = _columns(window) if is_packed else _window(window, hide)
        yield window.relative_to(run).as_posix(), body


def _home_hider() -> _Hide:
    """Return a function that replaces this user's home folder, as JSON names it, by ``~``."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111  Path.home() raises without one
    if not home.startswith("/"):
        return lambda text: text
    path = re.compile(re.escape(json.dumps(home)[1:-1].encode()) + rb'(?=[/"])')
    return lambda text: path.sub(b"~", text)


def _log(path: Path, hide: _Hide) -> bytes:
    """Return a log without the home folder; damaged parts keep their length, but are empty."""
    log = open_log(path)
    frames = (
        wire.frame(kind, bytes(body) if kind in wire.PACKED else hide(bytes(body)))
        for kind, body in log.frames
    )
    return bytes(sum(log.gaps)) + b"".join(frames) + bytes(log.tail)


def _window(path: Path, hide: _Hide) -> IO[bytes] | None:
    """Return a window without the home folder; ``None`` if it is damaged."""
    safe_copy = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  closed by who asked for it
    try:
        with _open_inflated(path) as source, _open_compressed(path, safe_copy) as target:
            while piece := source.read(_PIECE):
                target.write(hide(piece + source.readline()))  # a path is on one line
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        safe_copy.close()
        return None
    return safe_copy


def _columns(path: Path) -> IO[bytes] | None:
    """Return a window of packed columns unchanged; ``None`` if it is damaged.

    These are made from packed runs, which do not name the home folder.
    """
    try:
        columns.load(path)
        return path.open("rb")
    except (GaplessError, OSError):
        return None


@contextmanager
def _open_inflated(path: Path) -> Generator[_Bytes]:
    with path.open("rb") as file:
        if path.suffix == ".gz":
            yield gzip.GzipFile(fileobj=file)
        elif path.suffix == ".zst":
            yield io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
        else:
            yield file


@contextmanager
def _open_compressed(path: Path, target: IO[bytes]) -> Generator[_Sink]:
    if path.suffix == ".gz":
        with gzip.GzipFile("", "wb", _GZIP, target, mtime=0) as packed:
            yield packed
    elif path.suffix == ".zst":
        with zstandard.ZstdCompressor(_LEVEL).stream_writer(target, closefd=False) as packed:
            yield packed
    else:
        yield target


@contextmanager
def _tar(path: Path) -> Generator[_Add]:
    with (
        path.open("wb") as file,
        zstandard.ZstdCompressor(_LEVEL).stream_writer(file) as packed,
        tarfile.open(fileobj=packed, mode="w|") as tar,
    ):

        def add(name: str, body: IO[bytes]) -> None:
            member = tarfile.TarInfo(name)
            member.size = body.seek(0, io.SEEK_END)
            body.seek(0)
            tar.addfile(member, body)

        yield add


@contextmanager
def _zip(path: Path) -> Generator[_Add]:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, body: IO[bytes]) -> None:
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            body.seek(0)
            with archive.open(member, "w", force_zip64=True) as target:
                shutil.copyfileobj(body, target)

        yield add


_FORMS: Final = dict(zip(SUFFIXES, (_tar, _zip), strict=True))
