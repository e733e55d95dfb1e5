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
        """Give clock (MHz), temperature (°C), power (W), as far as they are told."""
        if self.nvml is None:
            return {}
        found: dict[str, float] = {}
        with suppress(self.nvml.NVMLError):
            found["sm_mhz"] = self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM)
            sensor = self.nvml.NVML_TEMPERATURE_GPU
            found["celsius"] = self.nvml.nvmlDeviceGetTemperature(self.handle, sensor)
            found["watts"] = self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000
        return found

    def facts(self) -> dict[str, Any]:
        """Give what the device is."""
        if not self.on:
            return {"name": "cpu", "cpus": len(os.sched_getaffinity(0))}
        found = torch.cuda.get_device_properties(0)
        facts: dict[str, Any] = {
            "name": found.name,
            "capability": [found.major, found.minor],
            "memory_bytes": found.total_memory,
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
    """Give a function that says how many of our cores others took, on average, in the block."""
    begun = _busy(), _own(), os.times().elapsed
    end: list[float | None] = []
    yield lambda: end[0] if end else _taken(begun)
    end.append(_taken(begun))


def _taken(begun: tuple[float | None, float, float]) -> float | None:
    busy, own, elapsed = _busy(), _own(), os.times().elapsed
    if busy is None or begun[0] is None or elapsed <= begun[2]:
        return None
    return round(max(0.0, (busy - begun[0]) - (own - begun[1])) / (elapsed - begun[2]), 3)


def _busy() -> float | None:
    """Give the seconds that the cores we may use were busy, steal included."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    total = 0
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in ours:
                user, nice, system, _idle, _wait, irq, soft, steal = map(int, ticks[:8])
                total += user + nice + system + irq + soft + steal
    except (OSError, ValueError):
        return None
    return total * _TICK_S


def _own() -> float:
    """Give the seconds of this process and of those that it started, dead or alive."""
    mine = os.times()
    total = mine.user + mine.system + mine.children_user + mine.children_system
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            spent = child.cpu_times()
            total += spent.user + spent.system
    return total
