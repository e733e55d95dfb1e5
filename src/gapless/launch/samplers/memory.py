"""Memory: what is free, the shared memory that loaders hand batches over in, swap.

``memory.available``, ``memory.total``, ``memory.swap_used``, ``memory.shared_used``,
``memory.shared_total`` (of /dev/shm), ``memory.group_used`` and ``.group_limit`` (of the control
group) in bytes; ``memory.swap_in``, ``.swap_out`` in bytes and ``.major_faults`` a second. Once, at
first: ``memory.fault_ns``, what the kernel takes to hand out a page and to take it back, and
``.page_bytes``.
"""

import mmap
import os
import re
import resource
import time
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
_PROBED: Final = 8 << 20  # bytes: about as large as tensors that are given back in a step
_MIN_PAGE_SHARE: Final = 0.9  # of the pages, each of which has a fault of its own
_PROBES: Final = 3  # the shortest counts
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
    growth, is_probed = Growth(), False

    def sample(now: int) -> Values:
        nonlocal is_probed
        values: dict[str, float | None] = {**_read_free(), **_read_shared(), **_read_group()}
        if not is_probed:
            is_probed = True
            values |= {"memory.fault_ns": measure_fault_ns(), "memory.page_bytes": _PAGE}
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


def measure_fault_ns() -> float | None:
    """Return what the kernel takes of this thread's processor for a page, from first touch to end.

    A mapping is touched page by page, twice, and given back: the second time costs only the loop.
    ``None``: the kernel does not count page faults, hands out larger pages at once, or has no
    memory to give.
    """
    costs: list[float] = []
    with suppress(OSError):
        costs += [cost for _ in range(_PROBES) if (cost := _probe_faults()) is not None]
    return min(costs, default=None)


def _probe_faults() -> float | None:
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    start = time.thread_time_ns()
    mapping = mmap.mmap(-1, _PROBED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _touch(mapping)
    touched = time.thread_time_ns()
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    again = time.thread_time_ns()
    _touch(mapping)
    loop_ns = time.thread_time_ns() - again
    closing = time.thread_time_ns()
    mapping.close()
    spent_ns = touched - start - loop_ns + time.thread_time_ns() - closing
    is_page_by_page = faults >= _MIN_PAGE_SHARE * _PROBED / _PAGE
    return spent_ns / faults if is_page_by_page and spent_ns > 0 else None


def _touch(mapping: mmap.mmap) -> None:
    for offset in range(0, _PROBED, _PAGE):
        mapping[offset] = 1
