"""Saving a window beside the training: in a child of this process that nobody else can see.

The child is made by a bare ``clone`` that names no signal for its end. So it sends no SIGCHLD,
``os.wait()`` and ``os.waitpid(-1)`` pass it by (the kernel shows such a child only to a wait that
asks with __WALL), and no fork handler runs, neither Python's nor a library's. The child has one
thread, every signal at its default, a time limit, no open file but its own, and leaves by
``os._exit``. A lock that another thread held at the clone may stop it for ever: then the alarm ends
it and the training saves in place, for it keeps the result until the file is whole.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
import time
from typing import Any

from .. import tracebacks
from ..stacks import gil_switch

LIMIT_S = 30.0  # for the child
AUTO, CHILD, IN_PLACE = "auto", "child", "place"  # option "save"
MIN_CHILD_EVENTS = 10_000  # events: 30 ms in place
_CLONE = {"x86_64": 56, "aarch64": 220}
_WALL = 0x40000000
_ROOM = 2 << 30  # bytes of memory that must be free: pages written meanwhile are there twice
# A thread that waits longer than Python's switch interval asks for the global lock, and the child,
# asked at the moment of the clone, would wait for ever for that thread to take it. So the interval
# is this long for the moment of the clone, and those who wait already are let through before.
_QUIET_S = 0.25
_FAILED = 1
_CLOSE_RANGE = 436
_TAIL = 16  # bytes
_long, _char = ctypes.c_long, ctypes.c_char


def no_child(setting: str, events: int, *, cuda: bool) -> str | None:
    """Return why a window of so many events is to be saved in place; ``None`` if in a child."""
    if setting == IN_PLACE:
        return "asked for"
    if events < MIN_CHILD_EVENTS and setting != CHILD:
        return "to make a child takes as long"
    if cuda and setting != CHILD and os.environ.get("WORLD_SIZE", "1") != "1":
        return "a network card may write into memory that a child would share"
    if not sys.platform.startswith("linux") or os.uname().machine not in _CLONE:
        return "no clone here"
    if sys.maxsize < 1 << 32 or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "no clone in such an interpreter"
    return None if _free_memory() >= _ROOM else "little memory is free"


def _free_memory() -> int:
    """Return the bytes that are free here and in this control group; what is not known is free."""
    free = [1 << 60]
    lines = [line.split() for line in _read("/proc/meminfo").splitlines()]
    free += [int(line[1]) << 10 for line in lines if line[:1] == ["MemAvailable:"]]
    limit, now = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit.strip().isdigit() and now.strip().isdigit():
        free.append(int(limit) - int(now))
    return min(free)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        tracebacks.pass_on(error)
        return ""


def make_folder(path: str) -> None:
    """Make a folder in one that is there: a spool that was removed has nobody who empties it."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def in_place(result: Any, path: str) -> bool:
    """Save a window here and now; return whether the file is whole. A cut file is removed."""
    unfinished = path + ".part"
    try:
        make_folder(os.path.dirname(path))
        result.save(unfinished)
        if _is_whole(unfinished):
            os.rename(unfinished, path)
            return True
    except (OSError, RuntimeError) as error:
        if tracebacks.from_a_signal_handler(error):
            _remove(unfinished)
            raise
    _remove(unfinished)
    return False


def _is_whole(path: str) -> bool:
    """Return whether a file ends as a JSON object does: a full disk cuts it without a word."""
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - 16))
        return file.read().rstrip().endswith(b"}")


def _remove(unfinished: str) -> None:
    for path in (unfinished, unfinished + ".tmp"):  # Kineto writes into the second
        with tracebacks.suppress(OSError):
            os.unlink(path)


class Child:
    """A window being saved by a child."""

    def __init__(self, result: Any, path: str, pid: int, start_ns: int) -> None:
        self.result, self.path, self.pid, self.begun = result, path, pid, start_ns

    def check_saved(self, now: int) -> bool | None:
        """Return whether the file is whole; ``None`` while the child works on it. Reaps it."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG | _WALL)
        except ChildProcessError:  # somebody asked for every kind of child
            return self._clean_up()
        if pid == 0:
            if now - self.begun > (LIMIT_S + 5) * 1e9:
                os.kill(self.pid, signal.SIGKILL)
            return None
        self._clean_up()
        return status == 0  # the file need not be there: the launcher takes what is whole

    def kill(self) -> None:
        """Kill the child: it was asked for a lock that it cannot give."""
        os.kill(self.pid, signal.SIGKILL)
        with tracebacks.suppress(ChildProcessError):
            os.waitpid(self.pid, _WALL)
        self._clean_up()

    def _clean_up(self) -> bool:
        _remove(self.path + ".part")
        return os.path.exists(self.path)


def _makes_folder(path: str) -> bool:
    try:
        make_folder(path)
    except OSError as error:
        tracebacks.pass_on(error)
        return False
    return True


def in_child(result: Any, path: str, start_ns: int) -> Child | None:
    """Begin to save a window in a child; ``None`` where none could be made."""
    if not _makes_folder(os.path.dirname(path)):
        return None
    libc = ctypes.PyDLL(None)  # keeps the global lock: the child holds it as we do
    libc.syscall.restype = _long
    call = [_long(argument) for argument in (_CLONE[os.uname().machine], 0, 0, 0, 0, 0)]
    collects = gc.isenabled()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    pid = -1
    try:  # from here on: what is blocked meanwhile, and what was to come, is handled in between
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        gc.disable()  # in the child no object of the user's may be finalised
        gil_switch.hold(_QUIET_S)
        time.sleep(1e-5)
        start = time.monotonic()
        pid = libc.syscall(*call)
        if pid == 0:
            _work(libc, result, path)
        quiet = time.monotonic() - start < _QUIET_S
    finally:
        if pid == 0:
            os._exit(_FAILED)
        gil_switch.release()
        if collects:
            gc.enable()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # the last: a handler may raise here
    if pid < 0:
        return None
    child = Child(result, path, pid, start_ns)
    return child if quiet else child.kill()


def _work(libc: Any, result: Any, path: str) -> None:
    """Save, as the child; never returns.

    By the C library through ``PyDLL``, and nothing that hands over Python's global lock: threads
    that waited for it at the clone are not there to take it.
    """
    libc.signal(int(signal.SIGALRM), 0)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    for number in range(1, 65):
        libc.signal(number, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if libc.syscall(*(_long(argument) for argument in (_CLOSE_RANGE, 3, 0x7FFFFFFF, 0))) != 0:
        for number in range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
            libc.close(number)
    null = libc.open(b"/dev/null", os.O_RDWR)
    for standard in range(3):
        libc.dup2(null, standard)
    libc.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _die_first(libc)
    unfinished = os.fsencode(path + ".part")
    result.save(path + ".part")
    if (
        _tail(libc, unfinished).rstrip().endswith(b"}")
        and libc.rename(unfinished, os.fsencode(path)) == 0
    ):
        libc._exit(0)
    libc._exit(_FAILED)


def _tail(libc: Any, path: bytes) -> bytes:
    """Return the last bytes of a file."""
    buffer = bytearray(_TAIL)
    target = (_char * _TAIL).from_buffer(buffer)
    file = libc.open(path, os.O_RDONLY)
    libc.lseek(file, _long(-_TAIL), os.SEEK_END)
    n_bytes = libc.read(file, target, _long(_TAIL))
    return bytes(buffer[: max(0, n_bytes)])


def _die_first(libc: Any) -> None:
    """Let the kernel, should memory end, take the child and not the training."""
    file = libc.open(b"/proc/self/oom_score_adj", os.O_WRONLY)
    libc.write(file, b"1000", _long(4))
    libc.close(file)
