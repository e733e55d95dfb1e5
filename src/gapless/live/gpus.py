"""The GPUs of the machine: their names, and which processes compute on them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from statistics import fmean
from typing import Any

from msgspec import Struct

from gapless.launch.samplers import AbsentError
from gapless.launch.samplers.gpu import open_library
from gapless.recorded.machine.devices import CLOCK_REASONS


class GpuShare(Struct, frozen=True):
    """What one process has of the GPUs, all of them together; ``None``: NVML hides it."""

    memory: int | None = None  # bytes
    busy: float | None = None  # multiprocessors: 1.5 is all of one GPU's and half of another's


class Gpus(Struct, frozen=True):
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

    def use_by_process(self, since_unix_us: int) -> dict[int, GpuShare]:
        """Return what each process that computes on a GPU has of it, and used of it since then."""
        busy = self._busy_by_process(since_unix_us)
        shares: dict[int, GpuShare] = {}
        for _, pid, size in self._running():
            known_bytes = shares.get(pid, GpuShare()).memory
            memory = known_bytes if size is None else size + (known_bytes or 0)
            shares[pid] = GpuShare(memory, busy.get(pid))
        return shares

    def _busy_by_process(self, since_unix_us: int) -> dict[int, float]:
        """Return how many GPUs' multiprocessors each process kept busy, as nvidia-smi pmon does."""
        busy: dict[int, float] = {}
        for handle in self.handles.values():
            percents: dict[int, list[int]] = {}
            with suppress(self.nvml.NVMLError):  # not on a slice (MIG), nor where none ran
                for sample in self.nvml.nvmlDeviceGetProcessUtilization(handle, since_unix_us):
                    percents.setdefault(int(sample.pid), []).append(int(sample.smUtil))
            for pid, values in percents.items():
                busy[pid] = busy.get(pid, 0.0) + fmean(values) / 100
        return busy

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
