"""Saving a window beside the training: in a child of this process that nobody else can see.

The child is made by a bare ``clone`` that names no signal for its end. So it sends no SIGCHLD,
``os.wait()`` and ``os.waitpid(-1)`` pass it by (the kernel shows such a child only to a wait that
asks with __WALL), and no fork handler runs, neither Python's nor a library's. The child has one
thread, every signal at its default, a time limit, no open file but its own, and leaves by
``os._exit``. A lock that another thread held at the clone may stop it for ever: then the alarm ends
it and the training saves in place, for it keeps the result until the file is whole.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
from typing import Any

LIMIT_S = 30.0  # for the child
AUTO, CHILD, PLACE = "auto", "child", "place"  # option "save"
CHILD_WITH_CUDA = False  # by "auto": not before it was measured on a device
_CLONE = {"x86_64": 56, "aarch64": 220}
_WALL = 0x40000000
_ROOM = 2 << 30  # bytes of memory that must be free: pages written meanwhile are there twice
_FAILED = 1


def no_child(setting: str, *, cuda: bool) -> str | None:
    """Give why a window is to be saved in place; ``None`` if in a child."""
    if setting == PLACE:
        return "asked for"
    if cuda and not CHILD_WITH_CUDA and setting != CHILD:
        return "CUDA is in use"
    if not sys.platform.startswith("linux") or os.uname().machine not in _CLONE:
        return "no clone here"
    if sys.maxsize < 1 << 32 or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "no clone in such an interpreter"
    return None if _free_memory() >= _ROOM else "little memory is free"


def _free_memory() -> int:
    """Give the bytes that are free here and in this control group; what is not told is free."""
    free = [1 << 60]
    told = [line.split() for line in _read("/proc/meminfo").splitlines()]
    free += [int(line[1]) << 10 for line in told if line[:1] == ["MemAvailable:"]]
    most, now = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if most.strip().isdigit() and now.strip().isdigit():
        free.append(int(most) - int(now))
    return min(free)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def in_place(result: Any, path: str) -> bool:
    """Save a window here and now; give whether the file is whole. A cut file is removed."""
    part = path + ".part"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        result.save(part)
        if _is_whole(part):
            os.rename(part, path)
            return True
    except (OSError, RuntimeError):
        pass
    _remove(part)
    return False


def _is_whole(path: str) -> bool:
    """Tell whether a file ends as one object of JSON does: a full disk cuts it without a word."""
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - 16))
        return file.read().rstrip().endswith(b"}")


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


class Child:
    """A window being saved by a child."""

    def __init__(self, result: Any, path: str, pid: int, begun: int) -> None:
        self.result, self.path, self.pid, self.begun = result, path, pid, begun

    def saved(self, now: int) -> bool | None:
        """Tell whether the file is whole; ``None`` while the child works on it. Reaps the child."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG | _WALL)
        except ChildProcessError:  # somebody asked for every kind of child
            return self._gone()
        if pid == 0:
            if now - self.begun > (LIMIT_S + 5) * 1e9:
                os.kill(self.pid, signal.SIGKILL)
            return None
        return self._gone() and status == 0

    def _gone(self) -> bool:
        _remove(self.path + ".part")
        return os.path.exists(self.path)


def in_child(result: Any, path: str, begun: int) -> Child | None:
    """Begin to save a window in a child; ``None`` where none could be made."""
    import ctypes

    os.makedirs(os.path.dirname(path), exist_ok=True)
    libc = ctypes.PyDLL(None)  # keeps the global lock: the child holds it as we do
    libc.syscall.restype = ctypes.c_long
    number = ctypes.c_long(_CLONE[os.uname().machine])
    zeros = [ctypes.c_ulong(0) for _ in range(5)]
    collects = gc.isenabled()
    gc.disable()  # in the child no object of the user's may be finalised
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = -1
    try:
        pid = libc.syscall(number, *zeros)
        if pid == 0:
            _work(libc, result, path)
    finally:
        if pid == 0:
            os._exit(_FAILED)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if collects:
            gc.enable()
    return Child(result, path, pid, begun) if pid > 0 else None


def _work(libc: Any, result: Any, path: str) -> None:
    """Save, as the child; never returns."""
    for number in range(1, 65):
        libc.signal(number, 0)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:  # noqa: PLR2004 - 0, 1, 2 stand for something to every library
            _close(int(name))
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _die_first()
    result.save(path + ".part")
    if _is_whole(path + ".part"):
        os.rename(path + ".part", path)
        os._exit(0)
    os._exit(_FAILED)


def _close(number: int) -> None:
    with contextlib.suppress(OSError):
        os.close(number)


def _die_first() -> None:
    """Let the kernel, should memory end, take the child and not the training."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
