"""A private view of the working folder: a trial's writes go nowhere that matters.

The command sees its folder, changes it, and reads its changes; the folder itself stays as it was.
That takes a mount namespace and an overlay file system, which not every kernel and container lets
an ordinary user have: it is tried. What lies outside the folder, and file systems mounted inside
it, are seen as they are (``launch.outside``).
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from gapless.launch import enter_view, keeper

_SCRIPT: Final = Path(enter_view.__file__)
_NAME: Final = "gapless-view-"
_LOCK: Final = "lock"  # held by whoever made the view, as long as it lives
_locks: dict[Path, int] = {}
_ELSEWHERE: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
_TRY_S: Final = 20.0
_RULE: Final = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_KERNEL: Final = "overlay file systems of ordinary users came with Linux 5.11"


@dataclass(frozen=True)
class View:
    """A private view of a folder; what is written through it lies in ``place``."""

    folder: Path
    place: Path


@dataclass(frozen=True)
class _Tried:
    """Where the layers of a view may lie, by which right; or why there is none."""

    place: Path | None
    ids: bool  # only files of this user and group can be changed
    why: str | None


def available(folder: Path, written: Iterable[str | os.PathLike[str]] = ()) -> str | None:
    """Say why there is no private view of a folder here; ``None``: there is. It is tried, once.

    ``written``: paths that the command is known to write, which must be such as can be written.
    """
    tried = _tried(folder.resolve())
    if tried.why is None and tried.ids:
        return _not_ours(folder.resolve(), written)
    return tried.why


def make(folder: Path) -> View:
    """Give a new private view. Raises ``OSError`` where none is available, or the disk is full."""
    tried = _tried(folder.resolve())
    if tried.place is None:
        raise OSError(f"no private view of {folder}: {tried.why}")
    _sweep(tried.place)
    return View(folder.resolve(), _made(tried.place))


@contextmanager
def view(folder: Path) -> Generator[View]:
    """Have a private view of a folder; afterwards what was written through it is gone."""
    made = make(folder)
    try:
        yield made
    finally:
        remove(made)


def prefix(view: View) -> tuple[str, ...]:
    """Give what a command is to be started with, so that it has the view: words before its own.

    It becomes the command: same process, signals, environment, open files, exit code. Where it
    cannot enter the view it ends with 125, and the command was not started.
    """
    python = (sys.executable, "-I", "-S", "-B")  # nothing of the command's environment enters it
    return (*python, str(_SCRIPT), str(view.folder), str(view.place))


def remove(view: View) -> None:
    """Remove what was written through a view; what resists is left."""
    keeper.remove(str(view.place))
    if view.place in _locks:
        os.close(_locks.pop(view.place))


def uncovered(folder: Path) -> tuple[Path, ...]:
    """Give what is mounted inside a folder: a view shows it as it is, and so it can be written."""
    with suppress(OSError):
        return tuple(enter_view.mounts_below(folder.resolve()))
    return ()


@cache
def _tried(folder: Path) -> _Tried:
    if sys.platform != "linux":
        return _Tried(None, ids=False, why="this system is not Linux")
    if folder == Path("/"):
        return _Tried(None, ids=False, why="the working folder is the root of everything")
    why = "no folder for its writes can be made outside the working folder"
    for place in _places(folder):
        try:
            kind, why = _try(View(folder, _made(place)))
        except OSError as error:
            why = f"{place}: {error.strerror}"
            continue
        if kind != "not":
            return _Tried(place, ids=kind == "user", why=None)
    return _Tried(None, ids=False, why=why)


def _try(view: View) -> tuple[str, str]:
    """Enter a view in a process of its own; give by which right, or "not" and why."""
    try:
        words = (*prefix(view), "--try")
        done = subprocess.run(words, capture_output=True, timeout=_TRY_S, check=False, text=True)  # noqa: S603
    except subprocess.TimeoutExpired:
        return "not", f"it took more than {_TRY_S:.0f} s"
    finally:
        remove(view)
    kind, _, why = done.stdout.strip().partition(" ")
    if kind in {"root", "user"}:
        return kind, ""
    return "not", _explained(why or f"it ended with {done.returncode}")


def _explained(why: str) -> str:
    with suppress(OSError):
        if _RULE.read_text(encoding="ascii").strip() == "1":
            return f"{why} (AppArmor: {_RULE.name} is 1)"
    if why.startswith("an overlay") and _release() < (5, 11):
        return f"{why} ({_KERNEL})"
    return why


def _release() -> tuple[int, ...]:
    parts = os.uname().release.split("-")[0].split(".")
    return tuple(int(one) for one in parts[:2] if one.isdigit())


def _places(folder: Path) -> Iterator[Path]:
    """Give where the layers may lie: on the folder's disk, so that writes take as long as there."""
    usual = [Path(tempfile.gettempdir()), folder.parent, *map(Path, _ELSEWHERE)]
    known = dict.fromkeys(one.resolve() for one in usual)
    outside = [one for one in known if folder not in (one, *one.parents) and one != Path("/")]
    with suppress(OSError):
        disk = folder.stat().st_dev
        yield from sorted(outside, key=lambda place: not _is_on(place, disk))
        return
    yield from outside


def _is_on(place: Path, disk: int) -> bool:
    with suppress(OSError):
        return place.stat().st_dev == disk
    return False


def _sweep(place: Path) -> None:
    """Remove the views of processes of ours that were killed: nobody holds their locks."""
    for path in place.glob(f"{_NAME}*"):
        with suppress(OSError):
            if path.stat().st_uid != os.geteuid() or path in _locks:
                continue
            lock = os.open(path / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(View(path, path))
            finally:
                os.close(lock)


def _made(place: Path) -> Path:
    """Make the layers of a view. Raises ``OSError``."""
    made = Path(tempfile.mkdtemp(prefix=_NAME, dir=place))
    _locks[made] = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(_locks[made], fcntl.LOCK_EX)
    (made / "upper").mkdir()
    (made / "work").mkdir()
    return made


def _not_ours(folder: Path, written: Iterable[str | os.PathLike[str]]) -> str | None:
    """Say which of the written paths cannot be changed in a view of an ordinary user's."""
    us = os.geteuid(), os.getegid()
    for path in {Path(os.path.realpath(one)) for one in written}:
        for one in (path, *path.parents):
            if folder not in one.parents:
                break
            with suppress(OSError):
                status = one.stat()
                if (status.st_uid, status.st_gid) != us:
                    return f"{one} belongs to another user or group"
    return None
