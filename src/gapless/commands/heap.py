"""How much freed memory the C library keeps in gapless's own processes."""

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt's numbers (malloc.h)
_TRIM_BYTES: Final = 64 << 20  # bytes free at the end of the heap that stay for the next batch
_MMAP_BYTES: Final = 16 << 20  # bytes of a column that go back to the system as soon as it is freed


def settle_heap() -> None:
    """Configure what glibc keeps; other C libraries are left as they are.

    By default it returns the memory of every batch and requests it again, lets large columns leave
    holes, and keeps a heap for every thread: on a long trace that costs time and memory.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)  # threads work on columns, and rarely allocate memory
        mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
        mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
