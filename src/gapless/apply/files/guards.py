"""Why a file must not be written: changed since the run, or not safe in git."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gapless.apply.patch import Patch, PatchedFile
from gapless.errors import UsageError
from gapless.report.run.sentences import relative_path
from gapless.store.run.sources import is_installed, sha256

_GIT_S: Final = 20.0
_WRITABLE: Final = 0o222


def check_files(patch: Patch) -> None:
    """Refuse files that are never written, whatever is forced.

    Raises ``UsageError`` for installed packages, for a file in the place of one that is to be
    created, and for two names of one file.
    """
    if len({file.path.resolve() for file in patch.files}) < len(patch.files):
        raise UsageError("the patch changes a file under two names; select fixes by --fix")
    for file in patch.files:
        name = relative_path(file.path)
        if is_installed(file.path) or is_installed(file.path.resolve()):
            raise UsageError(f"{name} belongs to an installed package, which is never edited")
        if file.before is None and os.path.lexists(file.path):
            raise UsageError(f"{name} is there already; move it away, it would be overwritten")


def find_objections(patch: Patch, sums: Mapping[Path, str]) -> Iterator[str]:
    """Yield why files should not be written, a sentence each; ``--force`` overrides them.

    ``sums``: SHA-256 of the files that the run is known to have run.
    """
    for file in patch.files:
        if file.before is None:
            continue
        yield from _changed_since(file, sums)
        yield from _git_objections(file.path.resolve())
        if not file.path.stat().st_mode & _WRITABLE:
            yield f"{relative_path(file.path)} is read-only"


def _changed_since(file: PatchedFile, sums: Mapping[Path, str]) -> Iterator[str]:
    name = relative_path(file.path)
    known_sum = sums.get(file.path) or sums.get(file.path.resolve())
    if known_sum is None:
        yield f"the run does not record what was in {name}: it may have changed since"
    elif known_sum != sha256(file.before or b""):
        yield f"{name} has changed since the run; record it again (gapless run)"


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
