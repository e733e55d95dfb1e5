"""How much memory this process has: on the device where there is one, else resident."""

from __future__ import annotations

import gc
import os
import sys


def read_bytes() -> int | None:
    """Return the bytes in use; ``None`` where nothing says so.

    On a device: of all processes on it, since onnxruntime and TensorRT do not ask torch for theirs.
    """
    torch = sys.modules["torch"]
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return int(total - free)
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def growth(before: int | None, after: int | None) -> int | None:
    """Return how much more is in use; ``None`` where that is not known, or none is to be seen."""
    if before is None or after is None or after <= before:
        return None
    return after - before
