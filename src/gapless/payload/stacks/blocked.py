"""What a thread waits for that is on no processor: a sleep, a file, a socket, a process, a lock.

It is asked without letting go of the GIL, so that the thread stands where its stack was read: with
the GIL it would go on.
"""

from __future__ import annotations

import os
import platform

from ..process_state import keep_fields

SLEEP, FILE, SOCKET, PIPE, PROCESS, LOCK, OTHER = (
    "sleep",
    "file",
    "socket",
    "pipe",
    "process",
    "lock",
    "other",
)
_DESCRIPTOR_CALLS = {  # the first argument is a descriptor: of a file, a socket or a pipe
    "x86_64": (0, 1, 17, 18, 19, 20, 74, 75, 77, 285),
    "aarch64": (63, 64, 65, 66, 67, 68, 82, 83, 46, 47),
}
_KINDS = {  # numbers of system calls (asm/unistd.h)
    "x86_64": {
        SLEEP: (35, 230),
        FILE: (2, 3, 4, 5, 6, 40, 82, 83, 84, 87, 217, 257, 262, 263, 264, 316, 332),
        SOCKET: (7, 23, 42, 43, 44, 45, 46, 47, 232, 270, 271, 281, 288, 441),
        PROCESS: (61, 247),
        LOCK: (202,),
    },
    "aarch64": {
        SLEEP: (101, 115),
        FILE: (34, 35, 38, 56, 57, 61, 71, 79, 80, 276, 291),
        SOCKET: (22, 72, 73, 202, 203, 206, 207, 211, 212, 242, 441),
        PROCESS: (95, 260),
        LOCK: (98,),
    },
}
_MACHINE = platform.machine()
_KIND_BY_NUMBER = {
    number: kind for kind, numbers in _KINDS.get(_MACHINE, {}).items() for number in numbers
}
_MAX_FILE_BYTES = 256  # bytes of such a file, at most
_RUNTIME_BYTES = 1 << 20  # of ``_PyRuntime``, about (3.11 to 3.14: 150 to 500 KB)
_python = keep_fields(libc=None, buffer=None, runtime=-_RUNTIME_BYTES)


def prepare() -> None:
    """Find what is called with the GIL held, and where Python's own locks lie."""
    try:
        import ctypes

        _python.libc = ctypes.PyDLL(None)
        _python.buffer = ctypes.create_string_buffer(_MAX_FILE_BYTES)
        symbol = ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")
        _python.runtime = ctypes.addressof(symbol)
    except (ImportError, OSError, ValueError, AttributeError):
        pass  # then the clock decides, and waits for the GIL count as waits


def waits_for(tid: int | None, *, runs: bool) -> str | None:
    """Return what a thread of this process waits for; None: it runs, or only waits for the GIL.

    ``runs``: whether it has run a moment ago; that decides where the system shows no call.
    """
    words = _system_call(tid)
    if words and words[0] == b"running":
        return None
    if not words or not words[0].isdigit():  # −1: in the kernel, but in no call: a mapped page, say
        return None if runs else OTHER
    number, argument = int(words[0]), int(words[1], 16) if len(words) > 1 else 0
    if number in _DESCRIPTOR_CALLS.get(_MACHINE, ()):
        return _descriptor_kind(argument)
    kind = _KIND_BY_NUMBER.get(number, OTHER)
    # The GIL lies in Python's runtime; locks of others do not.
    is_gil = kind == LOCK and 0 <= argument - _python.runtime < _RUNTIME_BYTES
    return None if is_gil else kind


def runs(tid: int | None) -> bool:
    """Return whether a thread executes code of C, without the GIL, which we hold."""
    return _system_call(tid)[:1] == [b"running"]


def _system_call(tid: int | None) -> list[bytes]:
    return _read(b"/proc/self/task/%d/syscall" % (tid or 0)).split()


def _descriptor_kind(number: int) -> str:
    try:
        target = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return FILE
    return SOCKET if target.startswith("socket:") else PIPE if target.startswith("pipe:") else FILE


def _read(path: bytes) -> bytes:
    """Read a small file, with the GIL held; nothing if it cannot be read."""
    libc, buffer = _python.libc, _python.buffer
    if libc is None:
        return b""
    descriptor = libc.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor < 0:
        return b""
    length = libc.read(descriptor, buffer, _MAX_FILE_BYTES)
    libc.close(descriptor)
    return buffer.raw[: max(0, length)]
