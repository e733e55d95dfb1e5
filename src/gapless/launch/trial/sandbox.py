"""A private view of the working folder: a trial's writes go nowhere that matters.

The command sees its folder, changes it, and reads its changes; the folder itself stays as it was.
That takes a mount namespace and an overlay file system, which not every kernel and container lets
an ordinary user have: it is tried. What lies outside the folder, and file systems mounted inside
it, are seen as they are (``launch.trial.side_effects``).
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from gapless.launch.trial import enter_view, supervisor

_SCRIPT: Final = Path(enter_view.__file__)
_PREFIX: Final = "gapless-view-"
_LOCK: Final = "lock"  # held by whoever made the view, as long as it lives
_locks: dict[Path, int] = {}
_making = threading.Lock()  # arms may be started by two threads
_OTHER_FOLDERS: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
_TRY_S: Final = 20.0
_APPARMOR_RULE: Final = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_KERNEL_NOTE: Final = "overlay file systems of ordinary users came with Linux 5.11"


class PrivateView(Struct, frozen=True):
    """A private view of a folder; what is written through it lies in ``place``."""

    folder: Path
    layers: Path


class _ViewSupport(Struct, frozen=True):
    """Where the layers of a view may lie, by which right; or why there is none."""

    parent: Path | None
    own_files_only: bool  # only files of this user and group can be changed
    why: str | None


def explain_unavailable(
    folder: Path, written_paths: Iterable[str | os.PathLike[str]] = ()
) -> str | None:
    """Return why there is no private view of a folder here; ``None``: there is. It is tried, once.

    ``written_paths``: those that the command is known to write, which must be writable in a view.
    """
    support = _test_support(folder.resolve())
    if support.why is None and support.own_files_only:
        return _find_foreign_path(folder.resolve(), written_paths)
    return support.why


def make(folder: Path) -> PrivateView:
    """Make a private view. Raises ``OSError`` where none is available, or the disk is full."""
    support = _test_support(folder.resolve())
    if support.parent is None:
        raise OSError(f"no private view of {folder}: {support.why}")
    with _making:
        _sweep(support.parent)
        return PrivateView(folder.resolve(), _make_layers(support.parent))


@contextmanager
def open_view(folder: Path) -> Generator[PrivateView]:
    """Yield a private view of a folder; afterwards what was written through it is gone."""
    view = make(folder)
    try:
        yield view
    finally:
        remove(view)


def place_files(view: PrivateView, files: Mapping[Path, bytes]) -> None:
    """Put other texts of files into a view, before a command enters it. Raises ``OSError``.

    Paths have their links resolved, and lie in the folder.
    """
    for path, content in files.items():
        upper_layer = view.layers / "upper"
        for folder in reversed(path.relative_to(view.folder).parents[:-1]):
            (upper_layer / folder).mkdir(exist_ok=True)
            shutil.copystat(view.folder / folder, upper_layer / folder)
        target = upper_layer / path.relative_to(view.folder)
        target.write_bytes(content)
        if path.exists():
            shutil.copymode(path, target)


def prefix(view: PrivateView) -> tuple[str, ...]:
    """Return what a command is to be started with, so that it has the view: words before its own.

    It becomes the command: same process, signals, environment, open files, exit code. Where it
    cannot enter the view it ends with 125, and the command was not started.
    """
    python = (sys.executable, "-I", "-S", "-B")  # nothing of the command's environment enters it
    return (*python, str(_SCRIPT), str(view.folder), str(view.layers))


def remove(view: PrivateView) -> None:
    """Remove what was written through a view; what resists is left."""
    supervisor.remove(str(view.layers))
    if view.layers in _locks:
        os.close(_locks.pop(view.layers))


def find_uncovered(folder: Path) -> tuple[Path, ...]:
    """Return what is mounted inside a folder: a view shows it as it is, so it can be written."""
    with suppress(OSError):
        return tuple(enter_view.mounts_below(folder.resolve()))
    return ()


@cache
def _test_support(folder: Path) -> _ViewSupport:
    if sys.platform != "linux":
        return _ViewSupport(None, own_files_only=False, why="this system is not Linux")
    if folder == Path("/"):
        return _ViewSupport(
            None, own_files_only=False, why="the working folder is the root of everything"
        )
    why = "no folder for its writes can be made outside the working folder"
    for parent in _places(folder):
        try:
            kind, why = _test_view(PrivateView(folder, _make_layers(parent)))
        except OSError as error:
            why = f"{parent}: {error.strerror}"
            continue
        if kind != "not":
            return _ViewSupport(parent, own_files_only=kind == "user", why=None)
    return _ViewSupport(None, own_files_only=False, why=why)


def _test_view(view: PrivateView) -> tuple[str, str]:
    """Enter a view in a process of its own; return by which right, or "not" and why."""
    try:
        words = (*prefix(view), "--try")
        process = subprocess.run(words, capture_output=True, timeout=_TRY_S, check=False, text=True)  # noqa: S603
    except subprocess.TimeoutExpired:
        return "not", f"it took more than {_TRY_S:.0f} s"
    finally:
        remove(view)
    kind, _, why = process.stdout.strip().partition(" ")
    if kind in {"root", "user"}:
        return kind, ""
    return "not", _explain_failure(why or f"it ended with {process.returncode}")


def _explain_failure(why: str) -> str:
    with suppress(OSError):
        if _APPARMOR_RULE.read_text(encoding="ascii").strip() == "1":
            return f"{why} (AppArmor: {_APPARMOR_RULE.name} is 1)"
    if why.startswith("an overlay") and _release() < (5, 11):
        return f"{why} ({_KERNEL_NOTE})"
    return why


def _release() -> tuple[int, ...]:
    fields = os.uname().release.split("-")[0].split(".")
    return tuple(int(number) for number in fields[:2] if number.isdigit())


def _places(folder: Path) -> Iterator[Path]:
    """Yield where the layers may lie: on the folder's disk, where writes take as long."""
    candidates = [Path(tempfile.gettempdir()), folder.parent, *map(Path, _OTHER_FOLDERS)]
    folders = dict.fromkeys(candidate.resolve() for candidate in candidates)
    outside_folders = [
        candidate
        for candidate in folders
        if folder not in (candidate, *candidate.parents) and candidate != Path("/")
    ]
    with suppress(OSError):
        disk = folder.stat().st_dev
        yield from sorted(outside_folders, key=lambda parent: not _is_on(parent, disk))
        return
    yield from outside_folders


def _is_on(folder: Path, disk: int) -> bool:
    with suppress(OSError):
        return folder.stat().st_dev == disk
    return False


def _sweep(parent: Path) -> None:
    """Remove the views of processes of ours that were killed: nobody holds their locks."""
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_uid != os.geteuid() or path in _locks:
                continue
            lock = os.open(path / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(PrivateView(path, path))
            finally:
                os.close(lock)


def _make_layers(parent: Path) -> Path:
    """Make the layers of a view. Raises ``OSError``."""
    layers = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    _locks[layers] = os.open(layers / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(_locks[layers], fcntl.LOCK_EX)
    (layers / "upper").mkdir()
    (layers / "work").mkdir()
    return layers


def _find_foreign_path(folder: Path, written_paths: Iterable[str | os.PathLike[str]]) -> str | None:
    """Describe a written path that cannot be changed in an ordinary user's view."""
    owner = os.geteuid(), os.getegid()
    for path in {Path(os.path.realpath(name)) for name in written_paths}:
        for ancestor in (path, *path.parents):
            if folder not in ancestor.parents:
                break
            with suppress(OSError):
                status = ancestor.stat()
                if (status.st_uid, status.st_gid) != owner:
                    return f"{ancestor} belongs to another user or group"
    return None
