"""Memory: what is free, the shared memory that loaders hand batches over in, swap.

``memory.available``, ``memory.total``, ``memory.swap_used``, ``memory.shared_used``,
``memory.shared_total`` (of /dev/shm), ``memory.group_used`` and ``.group_limit`` (of the control
group) in bytes; ``memory.swap_in``, ``.swap_out`` in bytes and ``.major_faults`` a second.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, keep_observed

_MEMORY: Final = Path("/proc/meminfo")
_VIRTUAL: Final = Path("/proc/vmstat")
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - its size is what matters
_GROUP: Final = Path("/sys/fs/cgroup")
_KIB: Final = 1024
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_find_sizes: Final = re.compile(
    rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+) kB$", re.MULTILINE
).findall
_find_counters: Final = re.compile(rb"^(pswpin|pswpout|pgmajfault) (\d+)$", re.MULTILINE).findall
_COUNTERS: Final = {
    "pswpin": ("memory.swap_in", _PAGE),
    "pswpout": ("memory.swap_out", _PAGE),
    "pgmajfault": ("memory.major_faults", 1),
}


def open_sampler() -> Sampler:
    """Return the sampler of memory."""
    if not _MEMORY.exists():
        raise AbsentError("there is no /proc/meminfo")
    growth = Growth()

    def sample(now: int) -> Values:
        values: dict[str, float | None] = {**_read_free(), **_read_shared(), **_read_group()}
        counts = _read_virtual()
        for name, (figure, unit) in _COUNTERS.items():
            if name in counts:
                values[figure] = growth.rate(name, now, counts[name] * unit)
        return keep_observed(values)

    return sample


def _read_free() -> Values:
    sizes = {name: int(count) * _KIB for name, count in _find_sizes(_MEMORY.read_bytes())}
    return {
        "memory.available": sizes[b"MemAvailable"],
        "memory.total": sizes[b"MemTotal"],
        "memory.swap_used": sizes[b"SwapTotal"] - sizes[b"SwapFree"],
    }


def _read_virtual() -> dict[str, int]:
    with suppress(OSError):
        matches = _find_counters(_VIRTUAL.read_bytes())
        return {name.decode(): int(count) for name, count in matches}
    return {}


def _read_shared() -> Values:
    with suppress(OSError):
        stats = os.statvfs(_SHARED)
        used = (stats.f_blocks - stats.f_bfree) * stats.f_frsize
        return {"memory.shared_used": used, "memory.shared_total": stats.f_blocks * stats.f_frsize}
    return {}


def _read_group() -> Values:
    values: Values = {}
    for name, file in (("used", "memory.current"), ("limit", "memory.max")):
        with suppress(OSError, ValueError):  # "max": no limit
            values[f"memory.group_{name}"] = int((_GROUP / file).read_bytes())
    return values
