"""The folder of another revision: a git worktree that is removed again, or a given folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.errors import UsageError

GIT: Final = "git:"
_PREFIX: Final = "gapless-gate-"


class Revision(Struct, frozen=True):
    """A side of a gate: where its source is."""

    words: str  # "git:main (1a2b3c4)"
    top: Path  # the root of its source
    folder: Path  # the working folder of the command


@contextmanager
def open_revision(name: str, folder: Path, links: Sequence[str]) -> Generator[Revision]:
    """Open the revision that ``--against`` names, as seen from a working folder.

    ``git:REV`` is checked out beside the repository and removed at the end, also on Ctrl-C;
    ``links`` are paths that are not in git, such as data, which it gets as symbolic links. Raises
    ``UsageError`` where there is no such revision or folder.
    """
    if not name.startswith(GIT):
        path = Path(name).absolute()
        if not path.is_dir():
            raise UsageError(f"there is no folder {name}; a revision of git is git:{name}")
        yield Revision(name, path, path)
        return
    top, commit = _find_commit(name.removeprefix(GIT), folder)
    place = Path(tempfile.mkdtemp(prefix=_PREFIX))
    tree = place / top.name
    try:
        _git(top, "worktree", "add", "--detach", "--force", str(tree), commit)
        inside = folder.resolve().relative_to(top.resolve())
        if not (tree / inside).is_dir():
            raise UsageError(f"{name} has no folder {inside}")
        for link in links:
            _link(folder, tree / inside, link)
        yield Revision(f"{name} ({commit[:7]})", tree, tree / inside)
    finally:
        _remove(top, tree)
        shutil.rmtree(place, ignore_errors=True)


def describe_head(folder: Path) -> str:
    """Return which commit a folder is at, and whether it was changed since; "" without git."""
    with suppress(UsageError):
        commit = _git(folder, "rev-parse", "--short", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
        return f"{commit} with uncommitted changes" if changed else commit
    return ""


def find_top(folder: Path) -> Path:
    """Return the root of the repository that holds a folder, or the folder itself."""
    with suppress(UsageError):
        return Path(_git(folder, "rev-parse", "--show-toplevel"))
    return folder


def map_search_path(top: Path, revision: Revision) -> Mapping[str, str | None]:
    """Return PYTHONPATH with the entries that lie in our source moved to the other revision's."""
    entries = os.environ.get("PYTHONPATH", "")
    if not entries:
        return {}
    return {
        "PYTHONPATH": os.pathsep.join(
            _move(entry, top, revision) for entry in entries.split(os.pathsep)
        )
    }


def _move(entry: str, top: Path, revision: Revision) -> str:
    with suppress(ValueError, OSError):
        if entry:
            return str(revision.top / Path(entry).resolve().relative_to(top.resolve()))
    return entry


def _find_commit(revision: str, folder: Path) -> tuple[Path, str]:
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    if revision.startswith("-"):
        raise UsageError(f"{revision!r} is no revision of git")
    try:
        return top, _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except UsageError:
        msg = (
            f"git knows no revision {revision!r} here; a shallow clone has only the last commit "
            "(actions/checkout: fetch-depth: 0)"
        )
        raise UsageError(msg) from None


def _git(folder: Path, *words: str) -> str:
    try:
        process = subprocess.run(  # noqa: S603
            ("git", "-C", str(folder), *words),  # noqa: S607
            capture_output=True, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"git cannot be started: {error.strerror}") from error
    if process.returncode:
        lines = process.stderr.strip().splitlines()
        raise UsageError(f"git {words[0]} failed: {lines[-1] if lines else process.returncode}")
    return process.stdout.strip()


def _link(source: Path, target: Path, name: str) -> None:
    theirs = target / name
    if not (source / name).exists():
        raise UsageError(f"--link {name}: there is no such path")
    if not theirs.exists():
        theirs.parent.mkdir(parents=True, exist_ok=True)
        theirs.symlink_to((source / name).resolve())


def _remove(top: Path, tree: Path) -> None:
    with suppress(UsageError):
        _git(top, "worktree", "remove", "--force", str(tree))
    shutil.rmtree(tree, ignore_errors=True)
    with suppress(UsageError):
        _git(top, "worktree", "prune")
