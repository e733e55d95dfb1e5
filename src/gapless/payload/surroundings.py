"""What a process has of its machine: memory, shared memory, processors, its device."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from . import tracebacks
from .process_state import keep_fields

_CGROUP = "/sys/fs/cgroup"
_HEAD = 1 << 14  # of /proc/cpuinfo, which is long: the first processor
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_LIMITS = (("memory.max", "memory.current"),)
_OLD_LIMITS = (("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),)
_NETWORK, _FABRIC = "/sys/class/net", "/sys/class/infiniband"
_MAX_LINKS = 64  # whose speeds are read
_OVER_LINKS = ("bond", "vlan", "macvlan", "ipvlan")  # kinds of interfaces that pass on to devices
_machine = keep_fields(values={}, links=None)  # read once a process


def values(torch: Any) -> dict[str, Any]:
    """Return values of the FACT of noun "machine"; what is not known here is None."""
    if not _machine.values:
        _machine.values.update(
            shm_bytes=_free("/dev/shm"),  # noqa: S108 - it is looked at, not written to
            memory_bytes=_memory(),
            cpu_list=_processors(),
            executable=os.path.abspath(sys.executable),
            processor=_model(),
            processors=_usable(),
            cores=_cores(),
            bf16=_bf16(torch),
        )
    return {**_machine.values, **_device(torch)}


def links() -> dict[str, int]:
    """Return the speeds of the machine's network links that are up, in Mbit/s, by their names."""
    if _machine.links is None:
        ethernet = [name for name in _names(_NETWORK) if _leads_to_device(name)]
        speeds = {name: _speed(name) for name in ethernet[:_MAX_LINKS]}
        speeds.update({name: _fabric_rate(name) for name in _names(_FABRIC)[:_MAX_LINKS]})
        _machine.links = {name: speed for name, speed in speeds.items() if speed}
    return dict(_machine.links)


def _names(folder: str) -> list[str]:
    with tracebacks.suppress(OSError):
        return sorted(os.listdir(folder))
    return []


def _leads_to_device(name: str) -> bool:
    """Return whether an interface is that of a device, or passes on to one.

    Pairs of interfaces and bridges, as containers have them, state 10,000 whatever is behind them.
    A host of containers has hundreds of these.
    """
    folder = os.path.join(_NETWORK, name)
    if os.path.exists(os.path.join(folder, "device")):
        return True
    with tracebacks.suppress(OSError):
        with open(os.path.join(folder, "uevent")) as file:
            kind = re.search(r"^DEVTYPE=(\w+)$", file.read(), re.MULTILINE)
        return kind is not None and kind.group(1) in _OVER_LINKS
    return False


def _speed(name: str) -> int | None:
    """Return what the driver of an interface says."""
    text = _line(os.path.join(_NETWORK, name, "speed"))
    return int(text) if text is not None and text.isdecimal() else None


def _fabric_rate(name: str) -> int | None:
    text = _line(os.path.join(_FABRIC, name, "ports", "1", "rate")) or ""
    match = re.match(r"(\d+(?:\.\d+)?) Gb/sec", text)
    return None if match is None else round(float(match.group(1)) * 1000)


def _bf16(torch: Any) -> bool | None:
    """Return whether oneDNN takes products in bf16 here: it needs AVX-512; None: not known.

    Where it does not, torch multiplies them by loops of its own.
    """
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return None


def _device(torch: Any) -> dict[str, Any]:
    """Return what the device in use is; nothing is asked where CUDA is not in use."""
    if not torch.cuda.is_initialized():
        return {}
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "device": properties.name,
        "capability": [properties.major, properties.minor],
        "devices": torch.cuda.device_count(),
        "device_cpus": _near(properties),
        "device_uuid": str(getattr(properties, "uuid", "")) or None,
        "driver": _driver(),
    }


def _driver() -> str | None:
    """Return the version of NVIDIA's driver, as the kernel's module states it."""
    version = _line("/sys/module/nvidia/version")
    if version is None:
        match = re.search(r"\b\d+(\.\d+)+\b", _line("/proc/driver/nvidia/version") or "")
        version = match.group(0) if match else None
    return version


def _model() -> str:
    """Return the processor's name, as the probe of machines does."""
    with tracebacks.suppress(OSError):
        with open("/proc/cpuinfo", errors="replace") as file:
            match = re.search(r"^model name\s*:\s*(.*\S)", file.read(_HEAD), re.MULTILINE)
        if match:
            return match.group(1)
    return os.uname().machine


def _usable() -> int | None:
    """Return how many processors this process may use: its affinity, and its group's quota."""
    with tracebacks.suppress(OSError, AttributeError):
        n_cpus = len(os.sched_getaffinity(0))
        quota, _, interval = (_line(os.path.join(_CGROUP, "cpu.max")) or "").partition(" ")
        if quota.isdecimal() and interval.isdecimal():
            n_cpus = min(n_cpus, max(1, round(int(quota) / int(interval))))
        return n_cpus
    return None


def _cores() -> int | None:
    """Return how many cores this process may use: threads of one core share what computes."""
    with tracebacks.suppress(OSError, AttributeError):
        numbers = os.sched_getaffinity(0)
        cores = {_line(_SIBLINGS.format(number)) for number in numbers}
        usable = _usable()
        return None if None in cores or usable is None else min(len(cores), usable)
    return None


def _near(device: Any) -> str | None:
    """Return the processors near a device; torch states its bus address since 2.8."""
    address = [getattr(device, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if None in address:
        return None
    domain, bus, slot = address
    return _line(f"/sys/bus/pci/devices/{domain:04x}:{bus:02x}:{slot:02x}.0/local_cpulist")


def _processors() -> str | None:
    """Return the processors that this process may use, as the kernel lists them."""
    with tracebacks.suppress(OSError):
        with open("/proc/self/status") as file:
            match = re.search(r"^Cpus_allowed_list:\s+(\S+)", file.read(), re.MULTILINE)
        return match.group(1) if match else None
    return None


def _free(path: str) -> int | None:
    with tracebacks.suppress(OSError):
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize
    return None


def _memory() -> int | None:
    """Return what the machine has available, or what is left of this process's share of it."""
    with tracebacks.suppress(OSError):
        with open("/proc/meminfo") as file:
            match = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
        free = [int(match.group(1)) << 10] if match else []
        for limit, used in (*_LIMITS, *_OLD_LIMITS):
            limit_bytes, used_bytes = _number(limit), _number(used)
            if limit_bytes is not None and used_bytes is not None:
                free.append(max(0, limit_bytes - used_bytes))
        return min(free, default=None)
    return None


def _number(name: str) -> int | None:
    text = _line(os.path.join(_CGROUP, name))
    return int(text) if text is not None and text.isdecimal() else None


def _line(path: str) -> str | None:
    """Return what stands in a file of one line; None: nothing, or there is no such file."""
    with tracebacks.suppress(OSError), open(path) as file:
        return file.read().strip() or None
    return None
