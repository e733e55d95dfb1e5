"""Why a file must not be written: changed since the run, or not safe in git."""

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from gapless.apply.patch import Patch, PatchedFile
from gapless.errors import UsageError
from gapless.report.run.sentences import relative_path
from gapless.store.run.sources import is_installed, sha256

_GIT_S: Final = 20.0
_WRITABLE: Final = 0o222
_STATUS_WIDTH: Final = 3  # bytes before a name in git's short status
_SHOWN_NAMES: Final = 3


def check_files(patch: Patch, sums: Mapping[Path, str]) -> None:
    """Refuse files that are never written, whatever is forced.

    ``sums``: SHA-256 of the files that the run is known to have run. Raises ``UsageError`` for
    installed packages, for a file in the place of one that is to be created, for two names of one
    file, and for one that has changed since the run: the lines that were measured are others now.
    """
    if len({file.path.resolve() for file in patch.files}) < len(patch.files):
        raise UsageError("the patch changes a file under two names; select fixes by --fix")
    for file in patch.files:
        name = relative_path(file.path)
        if is_installed(file.path) or is_installed(file.path.resolve()):
            raise UsageError(f"{name} belongs to an installed package, which is never edited")
        if file.before is None and os.path.lexists(file.path):
            raise UsageError(f"{name} is there already; move it away, it would be overwritten")
        if has_changed(file, sums):
            raise UsageError(f"{name} has changed since the run; record it again (gapless run)")


def has_changed(file: PatchedFile, sums: Mapping[Path, str]) -> bool:
    """Return whether a file is known to be another than the one that was run."""
    known_sum = _find_sum(file, sums)
    return file.before is not None and known_sum not in {None, sha256(file.before)}


def find_objections(patch: Patch, sums: Mapping[Path, str]) -> Iterator[str]:
    """Yield why files should not be written, a sentence each; ``--force`` overrides them.

    ``sums``: SHA-256 of the files that the run is known to have run.
    """
    edited_files = [file for file in patch.files if file.before is not None]
    for file in edited_files:
        if _find_sum(file, sums) is None:
            name = relative_path(file.path)
            yield f"the run does not record what was in {name}: it may have changed since"
        yield from _git_objections(file.path.resolve())
        if not file.path.stat().st_mode & _WRITABLE:
            yield f"{relative_path(file.path)} is read-only"
    yield from _tree_objections({file.path.resolve() for file in edited_files})


def _find_sum(file: PatchedFile, sums: Mapping[Path, str]) -> str | None:
    return sums.get(file.path) or sums.get(file.path.resolve())


def _git_objections(path: Path) -> Iterator[str]:
    status = _ask_git(path.parent, "status", "--porcelain", "--ignored", "--", path.name)
    if status is None:
        yield f"git cannot be asked whether {relative_path(path)} is committed"
        return
    if status.returncode:
        yield f"{relative_path(path)} is in no git tree"
    elif status.stdout.startswith((b"??", b"!!")):
        yield f"{relative_path(path)} is not committed to git"
    elif status.stdout:
        yield f"{relative_path(path)} has uncommitted changes"


def _tree_objections(paths: Collection[Path]) -> Iterator[str]:
    """Yield which other files of the trees are modified: the patch would be mixed up with these."""
    roots = {find_git_root(path.parent) for path in paths} - {None}
    for root in sorted(root for root in roots if root is not None):
        status = _ask_git(root, "status", "--porcelain", "-z", "--no-renames", "-uno")
        if status is None or status.returncode:
            continue
        names = [os.fsdecode(line[_STATUS_WIDTH:]) for line in status.stdout.split(b"\0") if line]
        modified = [name for name in names if root / name not in paths]
        if modified:
            name_words = ", ".join(modified[:_SHOWN_NAMES]) + ", …" * (len(modified) > _SHOWN_NAMES)
            yield f"the git tree has other uncommitted changes ({name_words})"


def find_git_root(folder: Path) -> Path | None:
    """Return the top of the git tree that a folder is in; ``None`` if it is in none."""
    answer = _ask_git(folder, "rev-parse", "--show-toplevel")
    name = "" if answer is None else os.fsdecode(answer.stdout.rstrip(b"\n"))
    return Path(name) if answer is not None and answer.returncode == 0 and name else None


def _ask_git(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes] | None":
    """Return what git answers; ``None`` where it is not there, or takes too long."""
    command = ("git", "--no-optional-locks", "--literal-pathspecs", "-C", str(folder), *words)
    try:
        return subprocess.run(command, capture_output=True, timeout=_GIT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
