"""What a process has of its machine: memory, shared memory, NUMA nodes, its device."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

_CGROUP = "/sys/fs/cgroup"
_NODES = "/sys/devices/system/node"
_LIMITS = (("memory.max", "memory.current"),)
_OLD_LIMITS = (("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),)
_read: dict[str, Any] = {}  # once a process


def values(torch: Any) -> dict[str, Any]:
    """Give values of the FACT of noun "machine"; what is not known here is None."""
    if not _read:
        _read.update(
            shm_bytes=_free("/dev/shm"),  # noqa: S108 - it is looked at, not written to
            memlock_bytes=_memlock(),
            memory_bytes=_memory(),
            numa_nodes=_nodes(),
        )
    return {**_read, **_device(torch)}


def _device(torch: Any) -> dict[str, Any]:
    """Give what the device in use is; nothing is asked where CUDA is not in use."""
    if not torch.cuda.is_initialized():
        return {}
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "device": found.name,
        "capability": [found.major, found.minor],
        "devices": torch.cuda.device_count(),
        "device_bytes": found.total_memory,
    }


def _free(path: str) -> int | None:
    with contextlib.suppress(OSError):
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize
    return None


def _memlock() -> int | None:
    try:
        import resource
    except ImportError:  # pragma: no cover - not a Unix
        return None
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _memory() -> int | None:
    """Give what the machine has available, or what is left of this process's share of it."""
    with contextlib.suppress(OSError):
        with open("/proc/meminfo") as file:
            found = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
        free = [int(found.group(1)) << 10] if found else []
        for limit, used in (*_LIMITS, *_OLD_LIMITS):
            most, now = _number(limit), _number(used)
            if most is not None and now is not None:
                free.append(max(0, most - now))
        return min(free, default=None)
    return None


def _number(name: str) -> int | None:
    with contextlib.suppress(OSError):
        with open(os.path.join(_CGROUP, name)) as file:
            text = file.read().strip()
        return int(text) if text.isdecimal() else None
    return None


def _nodes() -> int | None:
    with contextlib.suppress(OSError):
        return sum(bool(re.fullmatch(r"node\d+", one)) for one in os.listdir(_NODES)) or None
    return None
