"""A folder that is packed into: nobody else's, gone on with after a kill, never overwritten."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.errors import PackingError
from gapless.pack.manifest import FILE, PackManifest, read_manifest

_PART: Final = ".part-"  # what begins so is being written, or was when its writer was killed


class PackTarget(Struct, frozen=True):
    """A folder that is open for packing, and what it holds already."""

    folder: Path
    manifest: PackManifest | None
    is_new: bool  # it was made for this

    def part_path(self, shard: str) -> str:
        """Return where a shard is written before it is whole, without a suffix."""
        return str(self.folder / f"{_PART}{os.getpid()}-{shard}")

    def keep_shard(self, shard: str, suffixes: list[str]) -> None:
        """Give the files of a shard that is whole their names. Raises ``OSError``."""
        for suffix in suffixes:
            Path(self.part_path(shard) + suffix).replace(self.folder / (shard + suffix))
        _sync_folder(self.folder)

    def remove_parts(self) -> None:
        """Remove what is not whole."""
        for path in self.folder.glob(f"{_PART}*"):
            with suppress(OSError):
                path.unlink()

    def remove_if_empty(self) -> None:
        """Remove a folder that was made for this, if no shard of it is written."""
        if not self.is_new:
            return
        manifest = read_manifest(self.folder)
        if manifest is not None and (
            manifest.complete or any(shard.is_written for shard in manifest.shards)
        ):
            return
        with suppress(OSError):
            (self.folder / FILE).unlink(missing_ok=True)
            self.folder.rmdir()


@contextmanager
def open_target(folder: Path) -> Generator[PackTarget]:
    """Return a folder to pack into, which no other process may meanwhile. Raises ``PackingError``.

    At the end what is not whole is removed.
    """
    is_new = _make_folder(folder)
    lock = os.open(folder, os.O_RDONLY)
    try:
        _lock_folder(lock, folder)
        manifest = read_manifest(folder)
        if manifest is None and any(
            not path.name.startswith(_PART) and not path.name.startswith(f".{FILE}.")
            for path in folder.iterdir()
        ):
            raise PackingError(
                f"{folder} holds other files: nothing is overwritten; choose a folder that is not "
                "there yet"
            )
        target = PackTarget(folder, manifest, is_new)
        target.remove_parts()
        try:
            yield target
        finally:
            target.remove_parts()
            target.remove_if_empty()
    finally:
        os.close(lock)


def _make_folder(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        is_new = False
    except OSError as error:
        raise PackingError(f"{folder} cannot be made: {error.strerror}") from None
    else:
        is_new = True
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PackingError(f"{folder} cannot be written to: permission denied")
    return is_new


def _lock_folder(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PackingError(f"another gapless pack writes to {folder}: wait for it") from None
    except OSError:  # a file system without locks
        return


def _sync_folder(folder: Path) -> None:
    """Have the names of files survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
