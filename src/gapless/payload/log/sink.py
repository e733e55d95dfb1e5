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

from ... import wire
from .. import tracebacks
from ..process_state import keep

MIN_DESCRIPTOR = 300  # file descriptors below are left to the user, who may count on their numbers
AGAIN_NS = 1_000_000_000  # after a log could not be opened
MAX_CHECKED_FRAMES = 100_000  # frames of a log, at most, to see whether it ends well


class _Log:
    """The log of this process, as a file."""

    def __init__(self) -> None:
        self.fd = -1
        self.identity = (-1, -1)  # device and inode
        self.before = (0, 0)  # bytes that predecessors wrote into it, and the ns in which they did
        self.unwritten = b""  # of a frame that was cut by a full disk
        self.lost = 0  # frames dropped since the last write that succeeded
        self.why_lost = ""
        self.closed_until = 0

    def fork(self) -> None:
        """Leave the log to the parent."""
        close()  # this copy of the descriptor: the lock is the parent's, by its own
        self.lost = self.closed_until = 0


log = keep(_Log())


def is_open() -> bool:
    """Return whether the log is open and still ours (the user may close every descriptor)."""
    if log.fd < 0:
        return False
    try:
        status = os.fstat(log.fd)
    except OSError as error:
        tracebacks.pass_on(error)
        return False
    return (status.st_dev, status.st_ino) == log.identity


def claim(folder: str, stems: list[str]) -> str | None:
    """Open the first log of ``stems`` that is new or can be continued, and return its stem.

    It cannot where another process owns it, or where one was killed in the middle of a frame: what
    is in a log stays there, since it may have been transferred. None if there is no such log; tried
    again a second later at the earliest.
    """
    if time.monotonic_ns() < log.closed_until:
        return None
    try:
        for stem in stems:
            if _open(os.path.join(folder, stem + ".log")):
                return stem
    except OSError as error:
        _note(1, error)
    log.closed_until = time.monotonic_ns() + AGAIN_NS
    return None


def append(frames: list[bytes]) -> int:
    """Write whole frames, by one ``os.write``; return how many of them went."""
    data = b"".join([log.unwritten, *frames])
    try:
        written = os.write(log.fd, data)
    except OSError as error:
        _note(len(frames), error)
        return 0
    if written == len(data):
        log.unwritten = b""
        return len(frames)
    went = _cut(frames, written)
    _note(len(frames) - went, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    return went


def close() -> None:
    """Close the log; it is then anybody's who goes on in it."""
    if is_open():
        os.close(log.fd)
    log.fd, log.unwritten = -1, b""


def _note(count: int, error: OSError) -> None:
    tracebacks.pass_on(error)
    log.lost += count
    log.why_lost = f"{errno.errorcode.get(error.errno or 0, 'OSError')}: {error.strerror}"


def _cut(frames: list[bytes], written: int) -> int:
    """Count the frames that went, one of which may have gone in part: its rest goes next."""
    offset = len(log.unwritten)
    if written < offset:
        log.unwritten = log.unwritten[written:]
        return 0
    log.unwritten = b""
    for index, frame in enumerate(frames):
        if written < offset + len(frame):
            log.unwritten = frame[written - offset :] if written > offset else b""
            return index + bool(log.unwritten)
        offset += len(frame)
    return len(frames)


def _open(path: str) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(descriptor)
        if not _lock(descriptor) or not _ends_well(descriptor, status.st_size):
            return False
        log.before = status.st_size, _age(descriptor)
        log.identity = (status.st_dev, status.st_ino)
        log.fd, log.unwritten = _high(descriptor), b""
    finally:
        if log.fd != descriptor:
            os.close(descriptor)
    return True


def _lock(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        tracebacks.pass_on(error)
        return True  # a file system without locks: names with a rank or a worker are ours anyway
    return True


def _high(descriptor: int) -> int:
    if fcntl is None:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, MIN_DESCRIPTOR)
    except OSError as error:
        tracebacks.pass_on(error)
        return descriptor  # so few are allowed


def _ends_well(descriptor: int, size: int) -> bool:
    """Return whether a log is one frame after the other, to its end."""
    if size == 0 or _has_end(os.pread(descriptor, 512, max(size - 512, 0))):
        return True
    offset = 0
    for _ in range(MAX_CHECKED_FRAMES):
        head = os.pread(descriptor, wire.HEADER.size, offset)
        if len(head) < wire.HEADER.size or not head.startswith(wire.MAGIC):
            break
        offset += wire.HEADER.size + wire.HEADER.unpack(head)[3]
    return offset == size


def _has_end(tail: bytes) -> bool:
    offset = tail.rfind(wire.MAGIC + bytes([wire.END]))
    if offset < 0:
        return False
    frames, length = wire.frames(tail[offset:])
    return len(frames) == 1 and offset + length == len(tail)


def _age(descriptor: int) -> int:
    """Return how long ago a log was begun, by its first frame, as far as that shows."""
    first_frames = wire.frames(os.pread(descriptor, 4096, 0))[0][:1]
    for frame in first_frames:
        start_ns = frame.text().get("monotonic_ns") if frame.kind == wire.PROCESS else None
        return max(time.monotonic_ns() - start_ns, 0) if isinstance(start_ns, int) else 0
    return 0
