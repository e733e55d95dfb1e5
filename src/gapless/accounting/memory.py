"""Memory that was used once and is not needed again."""

import ctypes
import sys


def release_memory() -> None:
    """Give freed memory back to the system, where the C library otherwise keeps it (glibc).

    NumPy's columns of some megabytes leave holes in the heap that add up to hundreds of megabytes
    between the stages of a long trace.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
    if trim is not None:
        trim(0)
