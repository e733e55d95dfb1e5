"""Where the probe runs, and who else does: read from /proc, /sys, and the driver's libraries.

Nothing here makes a CUDA context, or imports torch.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from importlib import metadata, util
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_UUID = 16  # bytes
_TEXT = 256


def processors() -> int:
    """Return how many processors this process may use: its affinity, and its group's quota."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        allowed = os.cpu_count() or 1
    try:
        quota, interval = _read_text("/sys/fs/cgroup/cpu.max").split()
        allowed = min(allowed, max(1, round(int(quota) / int(interval))))
    except (OSError, ValueError):  # no limit ("max"), or no such group
        pass
    return allowed


def last_level_cache() -> int | None:
    """Return the bytes of the largest cache of the first processor, as the kernel reports them."""
    for level in (4, 3, 2):
        try:
            text = _read_text(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size").strip()
            return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]
        except (OSError, ValueError, KeyError):  # noqa: PERF203
            continue
    return None


def busy_s() -> tuple[float, float] | None:
    """Return processor seconds of the whole machine, and those of us and our ended children."""
    try:
        words = [int(word) for word in _read_text("/proc/stat").split("\n", 1)[0].split()[1:]]
    except (OSError, ValueError):
        return None
    times = os.times()
    user, nice, system, _, _, hard, soft = words[:7]
    ours = times.user + times.system + times.children_user + times.children_system
    return (user + nice + system + hard + soft) / _TICKS, ours


def load() -> float | None:
    """Return how many threads ran or wanted to, over the last minute."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def identity(device: int | None, path: str | None) -> dict[str, Any]:
    """Return what constants depend on; ``None`` for what cannot be known."""
    return {
        "executable": os.path.abspath(sys.executable),  # noqa: PTH100 - a link is another environment
        "python": platform.python_version(),
        "torch": _torch(),
        "processor": _processor(),
        "processors": processors(),
        "storage": storage(path),
        "gpu": gpu(device),
        "load": load(),
    }


def _torch() -> str | None:
    """Return torch's version without importing it."""
    if util.find_spec("torch") is None:
        return None
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    try:
        lines = _read_text("/proc/cpuinfo").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def storage(path: str | None) -> str | None:
    """Return the file system below a path: its type and what it is mounted from."""
    if path is None:
        return None
    try:
        number = os.stat(path).st_dev  # noqa: PTH116
        device_id = f"{os.major(number)}:{os.minor(number)}"
        for line in _read_text("/proc/self/mountinfo").splitlines():
            head, _, tail = line.partition(" - ")
            if head.split()[2] == device_id:
                kind, source = tail.split()[:2]
                return f"{kind} {source}"
    except (OSError, ValueError, IndexError):
        return None
    return device_id


def gpu(device: int | None) -> dict[str, Any] | None:
    """Ask CUDA's driver, then NVML, about a GPU: ``None`` without one, or the reason in "why"."""
    if device is None:
        return None
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"why": "there is no CUDA driver"}
    handle = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(handle), device):
        return {"why": f"CUDA shows no GPU {device}"}
    name = ctypes.create_string_buffer(_TEXT)
    number = ctypes.create_string_buffer(_UUID)
    get_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    if cuda.cuDeviceGetName(name, _TEXT, handle) or get_uuid(number, handle):
        return {"why": f"GPU {device} gives no name"}
    text = number.raw.hex()
    uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return {"name": name.value.decode(errors="replace"), "uuid": uuid, **_query_nvml(uuid)}


def _query_nvml(uuid: str) -> dict[str, Any]:
    """Return the driver's version, the memory that is free, and how busy the GPU is, by NVML."""
    gpu_state: dict[str, Any] = {"driver": None, "free_bytes": None, "busy_percent": None}
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return gpu_state
    except (OSError, AttributeError):
        return gpu_state
    text = ctypes.create_string_buffer(_TEXT)
    if not nvml.nvmlSystemGetDriverVersion(text, _TEXT):
        gpu_state["driver"] = text.value.decode(errors="replace")
    handle = ctypes.c_void_p()
    memory = (ctypes.c_ulonglong * 3)()  # total, free, used
    use = (ctypes.c_uint * 2)()  # of the GPU, of its memory; per cent of time
    for kind in ("GPU", "MIG"):
        if not nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}".encode(), ctypes.byref(handle)):
            if not nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
                gpu_state["free_bytes"] = memory[1]
            if not nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)):
                gpu_state["busy_percent"] = use[0]
            break
    nvml.nvmlShutdown()
    return gpu_state


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
