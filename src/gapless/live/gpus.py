"""The GPUs of the machine: their names, and which processes compute on them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gapless.launch.samplers import AbsentError
from gapless.launch.samplers.gpu import open_library
from gapless.recorded.machine.devices import CLOCK_REASONS


@dataclass(frozen=True)
class Gpus:
    """Handles of all GPUs; NVML makes no context on them."""

    nvml: Any
    handles: Mapping[str, Any]  # by name: gpu0

    def names(self) -> dict[str, str]:
        """Return what each GPU is called."""
        names: dict[str, str] = {}
        for gpu, handle in self.handles.items():
            with suppress(self.nvml.NVMLError):
                name = self.nvml.nvmlDeviceGetName(handle)
                names[gpu] = name.decode() if isinstance(name, bytes) else str(name)
        return names

    def memory_by_process(self) -> dict[int, int | None]:
        """Return the memory of processes that compute on a GPU, in bytes; ``None``: hidden."""
        sizes: dict[int, int | None] = {}
        for _, pid, size in self._running():
            known = sizes.get(pid)
            sizes[pid] = known if size is None else size + (known or 0)
        return sizes

    def used_by(self, pids: frozenset[int]) -> tuple[str, ...]:
        """Return the GPUs on which some of these processes compute."""
        return tuple(dict.fromkeys(gpu for gpu, pid, _ in self._running() if pid in pids))

    def _running(self) -> Iterator[tuple[str, int, int | None]]:
        for gpu, handle in self.handles.items():
            with suppress(self.nvml.NVMLError):
                for process in self.nvml.nvmlDeviceGetComputeRunningProcesses(handle):
                    yield gpu, int(process.pid), process.usedGpuMemory


def open_gpus() -> Gpus | None:
    """Return the GPUs of this machine; ``None`` without a driver."""
    try:
        nvml: Any = open_library()
    except (AbsentError, ImportError):
        return None
    handles: dict[str, Any] = {}
    with suppress(nvml.NVMLError):
        for number in range(nvml.nvmlDeviceGetCount()):
            handles[f"gpu{number}"] = nvml.nvmlDeviceGetHandleByIndex(number)
    return Gpus(nvml, handles)


def held_reasons(figures: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return what holds the clock of each GPU back, in words; NVML's bits tell."""
    return {
        name.partition(".")[0]: tuple(
            reason for reason, mask in CLOCK_REASONS.items() if int(bits) & mask
        )
        for name, bits in figures.items()
        if name.endswith(".throttle")
    }
