"""Write a patch: all files or none; undo it, to the byte."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gapless.apply.files import journal as journals
from gapless.apply.files.journal import JournalFile, PatchJournal
from gapless.apply.patch import Patch
from gapless.errors import GaplessError, UsageError
from gapless.store.run.sources import sha256

Contents = Mapping[Path, bytes | None]  # None: the file is not there


class UndoneFile(Struct, frozen=True):
    """A file that an undo has put back, or removed."""

    path: Path
    removed: bool


def write_patch(patch: Patch, patches: Path) -> Path:
    """Write all files of a patch, or none; return the folder in which what was before is kept.

    Raises ``GaplessError`` where an earlier patch is half written, a file has changed meanwhile, or
    one cannot be written: then all are as they were. So they are after Ctrl-C.
    """
    with journals.hold_lock(patches):
        _check_last(patches)
        paths = {file.path: file.path.resolve() for file in patch.files}
        for file in patch.files:
            if _read(file.path) != file.before:
                raise UsageError(f"{file.path} has changed just now; look at the diff again")
        folder = journals.next_folder(patches)
        try:
            journal = _begin(patch, paths, folder)
            _write_all({paths[file.path]: file.after for file in patch.files})
            journals.write_journal(replace(journal, written=True), folder)
        except BaseException as error:
            _take_back(patch, paths)
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                path = error.filename or folder
                raise GaplessError(
                    f"{path} cannot be written: {error.strerror}; nothing was changed"
                ) from error
            raise
        return folder


def undo_patch(patches: Path, *, force: bool = False) -> tuple[UndoneFile, ...]:
    """Put back what the last patch changed, and remove what it created; return these files.

    Raises ``UsageError`` where there is nothing to undo, or a file was edited since (unless
    ``force``), and ``GaplessError`` where a file cannot be written: an undo can be repeated.
    """
    if journals.last_patch(patches) is None:
        raise UsageError(f"there is nothing to undo: no applied patch is kept in {patches}")
    with journals.hold_lock(patches):
        folder = journals.last_patch(patches)
        if folder is None:
            raise UsageError("there is nothing to undo: another gapless fix has just undone it")
        journal = journals.read_journal(folder)
        before = {Path(file.path): journals.read_before(file, folder) for file in journal.files}
        if not force:
            _check_unedited(journal)
        try:
            _write_all(before)
            journals.forget(folder)
        except OSError as error:
            where = error.filename or folder
            raise GaplessError(
                f"{where} cannot be written: {error.strerror}; mend that, then undo again"
            ) from error
    return tuple(UndoneFile(path, removed=content is None) for path, content in before.items())


def _check_last(patches: Path) -> None:
    folder = journals.last_patch(patches)
    if folder is not None and not journals.read_journal(folder).written:
        raise UsageError("an earlier patch was interrupted half-way; first gapless fix --undo")


def _check_unedited(journal: PatchJournal) -> None:
    for file in journal.files:
        content = _read(Path(file.path))
        known_sums = {file.before, file.after}
        if (None if content is None else sha256(content)) not in known_sums:
            state = "is gone" if content is None else "was edited"
            raise UsageError(
                f"{file.path} {state} since it was patched; --force restores what was before"
            )


def _begin(patch: Patch, paths: Mapping[Path, Path], folder: Path) -> PatchJournal:
    folder.mkdir(parents=True)
    files: list[JournalFile] = []
    for number, file in enumerate(patch.files):
        copy = None
        if file.before is not None:
            copy = f"{number}-{file.path.name}"
            journals.write_synced(folder / copy, file.before)
        before_sum = None if file.before is None else sha256(file.before)
        files.append(JournalFile(str(paths[file.path]), copy, before_sum, sha256(file.after)))
    journal = PatchJournal(journals.VERSION, patch.written, tuple(files))
    journals.write_journal(journal, folder)
    journals.sync_folder(folder.parent)
    return journal


def _write_all(contents: Contents) -> None:
    """Write files beside their places first, where a full disk shows, then put them there."""
    changed = {path: content for path, content in contents.items() if _read(path) != content}
    try:
        for path, content in changed.items():
            if content is not None:
                _write_beside(path, content)
        for path, content in changed.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                _scratch_path(path).replace(path)
            journals.sync_folder(path.parent)
    finally:
        _remove_unfinished(contents)


def _take_back(patch: Patch, paths: Mapping[Path, Path]) -> None:
    """Restore the files that were written before a failure; if that fails, the journal stays."""
    written = [file for file in patch.files if _read(file.path) == file.after]
    _write_all({paths[file.path]: file.before for file in written})


def _remove_unfinished(contents: Contents) -> None:
    for path in contents:
        with suppress(OSError):
            _scratch_path(path).unlink(missing_ok=True)


def _write_beside(path: Path, content: bytes) -> None:
    """Write a new text of a file beside it, with its mode, owner and attributes."""
    unfinished = _scratch_path(path)
    unfinished.unlink(missing_ok=True)
    journals.write_synced(unfinished, content)
    if path.exists():
        status = path.stat()
        with suppress(OSError):  # of another user: the file becomes ours
            os.chown(unfinished, status.st_uid, status.st_gid)
        shutil.copystat(path, unfinished)
        os.utime(unfinished)


def _scratch_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.gapless-fix")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
