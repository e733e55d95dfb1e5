"""Enter a private view of a folder, and become a command: a script of its own, run before it.

``enter_view.py FOLDER LAYERS COMMAND…``: whatever the command and its children write below FOLDER
goes to ``LAYERS/upper``; they read FOLDER with that on top of it. ``--try`` in the place of a
command prints whether that can be had here: the first word is ``root``, ``user``
or ``not``. A mount namespace does it, and for an ordinary user a user namespace around it, in
which one is oneself. Nothing else changes: process id, signals, open files, environment, network.
"""

import ctypes
import errno
import os
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

# linux/sched.h, linux/mount.h
_NEWNS: Final = 0x00020000
_NEWUSER: Final = 0x10000000
_BIND: Final = 1 << 12
_RECURSIVE: Final = 1 << 14
_SLAVE: Final = 1 << 19

_ALL_USERS: Final = ("0", "0", "4294967295")  # uid_map, where no user namespace is around us
_SPOOL: Final = "GAPLESS_SPOOL"
_REFUSED: Final = 125  # as env, nice and their like end when they cannot do their own part
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127


class RefusedError(Exception):
    """There is no private view to be had; the message says why."""


def main(folder: str, layers: str, command: Sequence[str]) -> NoReturn:
    """Enter a private view of a folder and become the command."""
    cwd = os.getcwd()  # noqa: PTH109 - pathlib's is the same
    try:
        kind = enter(Path(folder), Path(layers))
        os.chdir(cwd)  # into the view
        if command[0] == "--try":
            _test_writes(Path(folder), Path(layers))
            print(kind)  # noqa: T201
    except (RefusedError, OSError) as error:
        if command[0] == "--try":
            print("not", error)  # noqa: T201
        else:
            print(f"gapless: no private view of {folder}: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(_REFUSED)
    if command[0] == "--try":
        sys.exit(0)
    _become(command)


def enter(folder: Path, layers: Path) -> str:
    """Let this process see a private view of a folder; return by which right: "root" or "user"."""
    kind = _own_mounts()
    _call_libc("to keep mounts to oneself", "mount", None, b"/", None, _RECURSIVE | _SLAVE, None)
    descriptors = {path: os.open(path, os.O_PATH) for path in _find_passthrough(folder)}
    upper, work = layers / "upper", layers / "work"
    upper.chmod(stat.S_IMODE(folder.stat().st_mode))  # of it the view's own folder takes its mode
    _overlay(folder, upper, work, extended=kind == "user" or not _is_root_of_all())
    for path, file in descriptors.items():
        source = f"/proc/self/fd/{file}".encode()
        purpose = f"to see {path} through it"
        _call_libc(purpose, "mount", source, bytes(path), None, _BIND | _RECURSIVE, None)
        os.close(file)
    return kind


def _own_mounts() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNS) == 0:
        return "root"
    user, group = os.geteuid(), os.getegid()
    _call_libc("a user namespace", "unshare", _NEWUSER | _NEWNS)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    return "user"


def _is_root_of_all() -> bool:
    return tuple(Path("/proc/self/uid_map").read_text(encoding="ascii").split()) == _ALL_USERS


def _overlay(folder: Path, upper: Path, work: Path, *, extended: bool) -> None:
    """Mount the view over the folder, by descriptor: names may hold what separates options."""
    files = [os.open(path, os.O_PATH) for path in (folder, upper, work)]
    names = [f"{name}dir=/proc/self/fd/{file}" for name, file in zip(_LAYERS, files, strict=True)]
    options = ",".join([*names, "userxattr"] if extended else names).encode()
    inner_mounts = list(mounts_below(folder))
    try:
        _call_libc("an overlay", "mount", b"overlay", bytes(folder), b"overlay", 0, options)
    except RefusedError as error:
        if inner_mounts and extended:
            raise RefusedError(
                f"{inner_mounts[0]} is mounted inside the folder ({error})"
            ) from None
        raise
    for file in files:
        os.close(file)


_LAYERS: Final = ("lower", "upper", "work")


def mounts_below(folder: Path) -> Iterator[Path]:
    """Yield what is mounted below a folder, but for what is mounted below such a mount again."""
    last_mount: Path | None = None
    for path in sorted(_mounts()):
        if (
            folder in path.parents
            and (last_mount is None or last_mount not in path.parents)
            and path != last_mount
        ):
            last_mount = path
            yield path


def _mounts() -> Iterator[Path]:
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        name = line.split(b" ")[4]
        yield Path(os.fsdecode(name.decode("unicode_escape").encode("latin-1")))


def _find_passthrough(folder: Path) -> Iterator[Path]:
    """Yield what stays as it is: other file systems inside, and the spool of the recorder."""
    inner_mounts = list(mounts_below(folder))
    yield from inner_mounts
    spool = Path(os.environ.get(_SPOOL) or "/").resolve()
    if folder in spool.parents and not any(
        mount in (spool, *spool.parents) for mount in inner_mounts
    ):
        yield spool


def _test_writes(folder: Path, layers: Path) -> None:
    """Write into the view as a training may; raise where that fails or comes out elsewhere."""
    name = f".gapless-view-{os.getpid()}"
    (folder / name).write_bytes(b"x")
    private = (layers / "upper" / name).exists()
    (folder / name).rename(folder / f"{name}.moved")
    (folder / f"{name}.moved").unlink()
    if not private:
        raise RefusedError("what is written comes out in the folder itself")
    (folder / name).mkdir()
    (folder / name).rmdir()


def _call_libc(purpose: str, function: str, *values: bytes | int | None) -> None:
    """Call a function of the C library. Raises ``RefusedError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    if getattr(libc, function)(*arguments) != 0:
        raise RefusedError(f"{purpose}: {os.strerror(ctypes.get_errno())}")


def _become(command: Sequence[str]) -> NoReturn:
    """Become the command, found as a shell finds it, with the environment we were given."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python has set to be ignored
        signal.signal(number, signal.SIG_DFL)
    variables = _environment()
    try:
        try:
            os.execvpe(command[0], [*command], variables)  # noqa: S606
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execvpe("/bin/sh", ["/bin/sh", command[0], *command[1:]], variables)  # noqa: S606
    except OSError as error:
        print(f"gapless: {command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _environment() -> dict[bytes, bytes]:
    """Return the environment as it was: in locale "C" Python sets ``LC_CTYPE`` at its start."""
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry[1:])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
