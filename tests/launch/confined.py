"""Become a command with fewer rights: ``confined.py no-namespaces|no-mounts COMMAND…``."""

import ctypes
import os
import platform
import struct
import sys

_UNSHARE = {"x86_64": 272, "aarch64": 97}  # its number, by machine
_DENIED = 0x00050000 | 1  # SECCOMP_RET_ERRNO, EPERM
_ALLOWED = 0x7FFF0000
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of a filter's instructions
_DROP_BOUNDING, _NO_NEW_RIGHTS, _SECCOMP = 24, 38, 22  # of prctl
_SYS_ADMIN = 21


def no_namespaces() -> None:
    """As in a container: the kernel refuses ``unshare``."""
    steps = (
        (_LOAD, 0, 0, 0),
        (_IF_EQUAL, 0, 1, _UNSHARE[platform.machine()]),
        (_RETURN, 0, 0, _DENIED),
        (_RETURN, 0, 0, _ALLOWED),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    assert libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0) == 0
    assert libc.prctl(_SECCOMP, 2, ctypes.create_string_buffer(program), 0, 0) == 0


def no_mounts() -> None:
    """Lose root's right to mount, with the next program; any other user has not got it."""
    if os.geteuid() == 0:
        assert ctypes.CDLL(None).prctl(_DROP_BOUNDING, _SYS_ADMIN, 0, 0, 0) == 0


if __name__ == "__main__":
    {"no-namespaces": no_namespaces, "no-mounts": no_mounts}[sys.argv[1]]()
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
