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

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, present

_MEMORY: Final = Path("/proc/meminfo")
_VIRTUAL: Final = Path("/proc/vmstat")
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - its size is what matters
_GROUP: Final = Path("/sys/fs/cgroup")
_KIB: Final = 1024
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_size: Final = re.compile(
    rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+) kB$", re.MULTILINE
).findall
_counter: Final = re.compile(rb"^(pswpin|pswpout|pgmajfault) (\d+)$", re.MULTILINE).findall
_COUNTERS: Final = {
    "pswpin": ("memory.swap_in", _PAGE),
    "pswpout": ("memory.swap_out", _PAGE),
    "pgmajfault": ("memory.major_faults", 1),
}


def open_sampler() -> Sampler:
    """Give the sampler of memory."""
    if not _MEMORY.exists():
        raise AbsentError("there is no /proc/meminfo")
    growth = Growth()

    def sample(now: int) -> Values:
        values: dict[str, float | None] = {**_free(), **_shared(), **_group()}
        counts = _virtual()
        for name, (written, unit) in _COUNTERS.items():
            if name in counts:
                values[written] = growth.rate(name, now, counts[name] * unit)
        return present(values)

    return sample


def _free() -> Values:
    told = {name: int(count) * _KIB for name, count in _size(_MEMORY.read_bytes())}
    return {
        "memory.available": told[b"MemAvailable"],
        "memory.total": told[b"MemTotal"],
        "memory.swap_used": told[b"SwapTotal"] - told[b"SwapFree"],
    }


def _virtual() -> dict[str, int]:
    with suppress(OSError):
        found = _counter(_VIRTUAL.read_bytes())
        return {name.decode(): int(count) for name, count in found}
    return {}


def _shared() -> Values:
    with suppress(OSError):
        told = os.statvfs(_SHARED)
        used = (told.f_blocks - told.f_bfree) * told.f_frsize
        return {"memory.shared_used": used, "memory.shared_total": told.f_blocks * told.f_frsize}
    return {}


def _group() -> Values:
    values: Values = {}
    for name, file in (("used", "memory.current"), ("limit", "memory.max")):
        with suppress(OSError, ValueError):  # "max": no limit
            values[f"memory.group_{name}"] = int((_GROUP / file).read_bytes())
    return values
