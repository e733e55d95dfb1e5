"""Append frames to this process's log in the spool: one write each, no thread, no lock held.

The log is opened at the first record. It is ours alone while we hold the ``flock`` on it. What
cannot be written is dropped and counted; the next write that succeeds says so.
"""

from __future__ import annotations

import errno
import os
import time

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

from .. import wire
from . import tracebacks

HIGH = 300  # file descriptors below are left to the user, who may count on their numbers
AGAIN_NS = 1_000_000_000  # after a log could not be opened
LARGEST_TAIL = 64 << 20

lost = 0  # frames dropped since the last write that succeeded
why_lost = ""
_fd = -1
_identity: tuple[int, int] = (-1, -1)
_rest = b""  # of a frame that was cut by a full disk
_closed_until = 0


def is_open() -> bool:
    """Tell whether the log is open and still ours (the user may close every descriptor)."""
    if _fd < 0:
        return False
    try:
        found = os.fstat(_fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == _identity


def claim(folder: str, stems: list[str]) -> str | None:
    """Open the first log of ``stems`` that no other process owns, and give its stem.

    None if there is none; tried again a second later at the earliest.
    """
    global _closed_until
    if time.monotonic_ns() < _closed_until:
        return None
    try:
        for stem in stems:
            if _open(os.path.join(folder, stem + ".log")):
                return stem
    except OSError as error:
        _note(1, error)
    _closed_until = time.monotonic_ns() + AGAIN_NS
    return None


def append(frames: list[bytes]) -> int:
    """Write whole frames, by one ``os.write``; give how many of them went."""
    global _rest
    data = b"".join([_rest, *frames])
    try:
        written = os.write(_fd, data)
    except OSError as error:
        _note(len(frames), error)
        return 0
    if written == len(data):
        _rest = b""
        return len(frames)
    went = _cut(frames, written)
    _note(len(frames) - went, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    return went


def close() -> None:
    """Close the log; it is then anybody's who goes on in it."""
    global _fd, _rest
    if is_open():
        os.close(_fd)
    _fd, _rest = -1, b""


def forget() -> None:
    """Leave the log to the parent: for the child, after a fork."""
    global lost, _closed_until
    close()  # of this copy of the descriptor; the lock is the parent's as long as it has its own
    lost = _closed_until = 0


def _note(count: int, error: OSError) -> None:
    global lost, why_lost
    if tracebacks.from_a_signal_handler(error):  # a TimeoutError of the user's is an OSError too
        raise error
    lost += count
    why_lost = f"{errno.errorcode.get(error.errno or 0, 'OSError')}: {error.strerror}"


def _cut(frames: list[bytes], written: int) -> int:
    """Count the frames that went, one of which may have gone in part: its rest goes next."""
    global _rest
    at = len(_rest)
    if written < at:
        _rest = _rest[written:]
        return 0
    _rest = b""
    for index, one in enumerate(frames):
        if written < at + len(one):
            _rest = one[written - at :] if written > at else b""
            return index + bool(_rest)
        at += len(one)
    return len(frames)


def _open(path: str) -> bool:
    global _fd, _identity, _rest
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _own(descriptor):
            return False
        _mend(descriptor)
        found = os.fstat(descriptor)
        _identity = (found.st_dev, found.st_ino)
        _fd, _rest = _high(descriptor), b""
    finally:
        if _fd != descriptor:
            os.close(descriptor)
    return True


def _own(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: names with a rank or a worker are ours anyway
        return True
    return True


def _high(descriptor: int) -> int:
    if fcntl is None:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # so few are allowed
        return descriptor


def _mend(descriptor: int) -> None:
    """Cut what a killed predecessor left of a frame, so that ours can be read after it."""
    size = os.fstat(descriptor).st_size
    if size == 0 or _ends_well(os.pread(descriptor, 512, max(size - 512, 0))):
        return
    if size > LARGEST_TAIL:
        raise OSError(errno.EFBIG, "a log that was cut, and too long to mend")
    _, whole = wire.frames(os.pread(descriptor, size, 0))
    if whole < size:
        os.ftruncate(descriptor, whole)


def _ends_well(end: bytes) -> bool:
    at = end.rfind(wire.MAGIC + bytes([wire.END]))
    if at < 0:
        return False
    found, length = wire.frames(end[at:])
    return len(found) == 1 and at + length == len(end)
