"""What a block ran on: the device's clock and heat, and who else used the processors."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import torch

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Device:
    """The device that steps run on, and what NVML says of it."""

    def __init__(self, kind: str) -> None:
        self.on = kind == "cuda"
        self.handle: Any = None
        self.nvml: Any = None
        if self.on:
            with suppress(ImportError):
                import pynvml

                self._open(pynvml)

    def _open(self, nvml: ModuleType) -> None:
        with suppress(nvml.NVMLError):
            nvml.nvmlInit()
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            self.handle = nvml.nvmlDeviceGetHandleByIndex(int(visible) if visible.isdigit() else 0)
            self.nvml = nvml

    def wait(self) -> None:
        """Wait for what was launched."""
        if self.on:
            torch.cuda.synchronize()

    def state(self) -> dict[str, float]:
        """Return clock (MHz), temperature (°C), power (W), as far as they are told."""
        if self.nvml is None:
            return {}
        readings: dict[str, float] = {}
        with suppress(self.nvml.NVMLError):
            readings["sm_mhz"] = self.nvml.nvmlDeviceGetClockInfo(
                self.handle, self.nvml.NVML_CLOCK_SM
            )
            sensor = self.nvml.NVML_TEMPERATURE_GPU
            readings["celsius"] = self.nvml.nvmlDeviceGetTemperature(self.handle, sensor)
            readings["watts"] = self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000
        return readings

    def facts(self) -> dict[str, Any]:
        """Return what the device is."""
        if not self.on:
            return {"name": "cpu", "cpus": len(os.sched_getaffinity(0))}
        properties = torch.cuda.get_device_properties(0)
        facts: dict[str, Any] = {
            "name": properties.name,
            "capability": [properties.major, properties.minor],
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "cpus": len(os.sched_getaffinity(0)),
            "visible": torch.cuda.device_count(),
        }
        if self.nvml is not None:
            with suppress(self.nvml.NVMLError):
                facts["driver"] = self.nvml.nvmlSystemGetDriverVersion()
        return facts


@contextmanager
def foreign() -> Generator[Callable[[], float | None]]:
    """Return a function that says how many of our cores others took, on average, in the block."""
    start = _busy_seconds(), _own_seconds(), os.times().elapsed
    end: list[float | None] = []
    yield lambda: end[0] if end else _foreign_cores(start)
    end.append(_foreign_cores(start))


def _foreign_cores(start: tuple[float | None, float, float]) -> float | None:
    busy_s, own_s, elapsed = _busy_seconds(), _own_seconds(), os.times().elapsed
    if busy_s is None or start[0] is None or elapsed <= start[2]:
        return None
    return round(max(0.0, (busy_s - start[0]) - (own_s - start[1])) / (elapsed - start[2]), 3)


def _busy_seconds() -> float | None:
    """Return the seconds that the cores we may use were busy, steal included."""
    our_cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    total = 0
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in our_cores:
                user, nice, system, _idle, _wait, irq, soft, steal = map(int, ticks[:8])
                total += user + nice + system + irq + soft + steal
    except (OSError, ValueError):
        return None
    return total * _TICK_S


def _own_seconds() -> float:
    """Return the seconds of this process and of those that it started, dead or alive."""
    times = os.times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            spent = child.cpu_times()
            total += spent.user + spent.system
    return total
