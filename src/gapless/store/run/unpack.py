"""A run that somebody sent: every name in it is checked before anything is written."""

import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import zstandard
from msgspec.structs import replace

from gapless import wire
from gapless.errors import NotFoundError, RunFolderError
from gapless.store.run import manifest
from gapless.store.run.manifest import KILLED, RUNNING

_NAME: Final = r"[\w-][\w.-]{0,199}"
_RUN_FILE: Final = re.compile(
    rf"({_NAME})/(run\.json|{_NAME}\.log|logs/{_NAME}\.log|windows/{_NAME})", re.ASCII
)
_MAX_BYTES: Final = 64 << 30  # bytes of a run; a few kilobytes can be made to unpack to any number
_PIECE: Final = 1 << 20
_Files = Iterable[tuple[str, IO[bytes] | None]]
_DAMAGE: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zstandard.ZstdError,
    zlib.error,
    EOFError,
    NotImplementedError,  # a way of packing that zipfile does not know
    RuntimeError,  # an encrypted member
    FileExistsError,  # a name twice
)


def unpack(packed: Path, home: Path) -> Path:
    """Unpack a run into a folder of runs; return the run's folder.

    Raises ``NotFoundError`` if the file is not there, ``RunFolderError`` if it is not a packed run,
    or a run of this id exists, ``OSError`` where it cannot be written.
    """
    if not packed.is_file():
        raise NotFoundError(f"{packed} is no file")
    unfinished = home / f".unpacking-{os.getpid()}"
    try:
        with _files(packed) as files:
            ident = _write(files, unfinished, packed)
        target = home / ident
        if target.exists():
            raise RunFolderError(f"{target} is there already; delete it first")
        _settle_manifest(unfinished / ident, packed)
        (unfinished / ident).rename(target)
    except _DAMAGE as error:
        raise RunFolderError(f"{packed} is no packed run, or damaged: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


@contextmanager
def _files(packed: Path) -> Generator[_Files]:
    if zipfile.is_zipfile(packed):
        with zipfile.ZipFile(packed) as archive:
            yield _zip_members(archive)
        return
    with (
        packed.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as archive,
    ):
        yield ((member.name, archive.extractfile(member)) for member in archive)


def _zip_members(archive: zipfile.ZipFile) -> Iterator[tuple[str, IO[bytes] | None]]:
    for member in archive.infolist():
        yield member.filename, None if member.is_dir() else archive.open(member)


def _write(files: _Files, folder: Path, packed: Path) -> str:
    """Write the files of a run, all with one id; return the id."""
    ids = set[str]()
    bytes_left = _MAX_BYTES
    for name, body in files:
        match = _RUN_FILE.fullmatch(name)
        if match is None or body is None:
            raise RunFolderError(f"{packed} holds {name!r}, which belongs to no run")
        ids.add(match[1])
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with body, target.open("xb") as file:
            while piece := body.read(_PIECE):
                bytes_left -= len(piece)
                if bytes_left < 0:
                    raise RunFolderError(f"{packed} unpacks to more than {_MAX_BYTES >> 30} GiB")
                file.write(piece)
    if len(ids) != 1:
        raise RunFolderError(f"{packed} holds {len(ids)} runs; one was expected")
    return ids.pop()


def _settle_manifest(run: Path, packed: Path) -> None:
    """Remove from a manifest where it came from. Raises ``RunFolderError``."""
    document = manifest.read(run)
    if not document.is_readable:
        raise RunFolderError(f"{packed} holds no readable {wire.MANIFEST}")
    unpacked_manifest = document.manifest
    manifest.write(
        run,
        replace(unpacked_manifest, status=KILLED)
        if unpacked_manifest.status == RUNNING
        else unpacked_manifest,
    )
