"""The journal of patches: what files were before, kept until a patch is undone.

Each patch has a folder, numbered in order: ``journal.json`` and the bytes of the files before it.
It is complete on the disk before the first file is written, and goes once all are restored: what
is killed in between can be undone.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from gapless.errors import GaplessError
from gapless.store.run.sources import sha256

VERSION: Final = 1
FOLDER: Final = "patches"  # beside the folder of runs
_NAME: Final = "journal.json"
_LOCK: Final = "lock"


class JournalFile(Struct, frozen=True):
    """A file of a patch: where its bytes before are, and the sums of both texts."""

    path: str  # links resolved
    copy: str | None  # in the folder of the patch; None: the patch created the file
    before: str | None  # SHA-256
    after: str


class PatchJournal(Struct, frozen=True):
    """A patch that was begun, and perhaps written completely."""

    version: int
    fixes: tuple[str, ...]
    files: tuple[JournalFile, ...]
    written: bool = False  # completely


@contextmanager
def hold_lock(patches: Path) -> Generator[None]:
    """Let no other process patch meanwhile. Raises ``GaplessError`` if one does, ``OSError``."""
    patches.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), (patches / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
    lock = os.open(patches / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise GaplessError("another gapless fix is writing; wait until it has ended") from None
    finally:
        os.close(lock)


def last_patch(patches: Path) -> Path | None:
    """Return the folder of the last patch that was not undone; ``None``: there is none."""
    with suppress(OSError):
        numbered = [path for path in patches.iterdir() if path.name.isdecimal()]
        journaled = [path for path in numbered if (path / _NAME).exists()]
        return max(journaled, key=lambda path: int(path.name), default=None)
    return None


def next_folder(patches: Path) -> Path:
    """Return the folder for another patch; what a killed process began there is removed."""
    previous = last_patch(patches)
    folder = patches / f"{1 + (0 if previous is None else int(previous.name)):04d}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def write_journal(journal: PatchJournal, folder: Path) -> None:
    """Write a journal, and wait until it is on the disk. Raises ``OSError``."""
    text = json.dumps(msgspec.to_builtins(journal), indent=1) + "\n"
    unfinished = folder / f".{_NAME}"
    write_synced(unfinished, text.encode())
    unfinished.replace(folder / _NAME)
    sync_folder(folder)


def read_journal(folder: Path) -> PatchJournal:
    """Return the journal in the folder of a patch. Raises ``GaplessError`` if it cannot be read."""
    try:
        journal = msgspec.json.decode((folder / _NAME).read_bytes(), type=PatchJournal)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GaplessError(f"{folder / _NAME} cannot be read: {error}") from None
    if journal.version > VERSION:
        raise GaplessError(f"{folder / _NAME} is of a later gapless; upgrade to undo it")
    return journal


def forget(folder: Path) -> None:
    """Remove the journal of a patch that is undone. Raises ``OSError``."""
    (folder / _NAME).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def read_before(file: JournalFile, folder: Path) -> bytes | None:
    """Return the bytes of a file before the patch; ``None`` if the patch created it.

    Raises ``GaplessError`` where they are damaged.
    """
    if file.copy is None:
        return None
    copy = folder / Path(file.copy).name
    try:
        content = copy.read_bytes()
    except OSError as error:
        raise GaplessError(f"{copy}: {error.strerror}; {file.path} cannot be restored") from None
    if sha256(content) != file.before:
        raise GaplessError(f"{copy} is damaged; {file.path} cannot be restored from it")
    return content


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file, and wait until it is on the disk. Raises ``OSError``."""
    try:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk does not say for which file
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can say so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
