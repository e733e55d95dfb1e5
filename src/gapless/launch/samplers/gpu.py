"""GPUs, by NVML, which makes no CUDA context: ``gpuN.*``, N as nvidia-smi numbers them.

``sm``, ``memory_util`` (share of time with a kernel running, with memory in use; per cent),
``memory_used``, ``memory_total`` (bytes), ``power`` (W), ``energy`` (J since the driver was
loaded), ``temperature`` (°C), ``clock_sm``, ``clock_memory`` (MHz), ``throttle`` (NVML's bits),
``pcie_rx``, ``pcie_tx`` (bytes/s, to and from the GPU), ``others`` (processes not of the run that
compute on it). Where the GPU has performance monitors (GPM; Hopper and later): ``gpm.active``,
``gpm.sm``, ``gpm.occupancy``, ``gpm.tensor``, ``gpm.dram`` in per cent, ``gpm.nvlink_rx`` and
``gpm.nvlink_tx`` in bytes/s.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, present
from gapless.launch.samplers.gpm import Monitor, open_monitor
from gapless.launch.tree import Tree

Note = Callable[[str, str], None]
_FAILURES: Final = 3  # in a row, and a figure is given up
_LOOK: Final = 10  # samples between two looks at which GPUs the run uses
_KIB: Final = 1024


@dataclass
class _Gpu:
    number: int
    handle: Any
    queries: dict[str, Callable[[], float | None]]
    monitor: Monitor | None
    failures: dict[str, int] = field(default_factory=dict[str, int])


def open_sampler(tree: Tree, note: Note, visible: str | None) -> Sampler:
    """Give the sampler of the GPUs that ``CUDA_VISIBLE_DEVICES`` names, all if it is not set."""
    nvml = _library()
    gpus = [_open(nvml, number, tree) for number in _numbers(nvml, visible)]
    if not gpus:
        raise AbsentError("no GPU is visible to the command")
    looks, used = 0, gpus

    def sample(now: int) -> Values:
        nonlocal looks, used
        if looks % _LOOK == 0:
            used = _used(nvml, gpus, tree)
        looks += 1
        values: dict[str, float | None] = {}
        for gpu in used:
            values |= _values(nvml, gpu, now, note)
        return present(values)

    return sample


def _library() -> Any:  # noqa: ANN401 - pynvml has no types
    nvml: Any = import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise AbsentError(f"NVML: {error}") from None
    return nvml


def _numbers(nvml: Any, visible: str | None) -> list[int]:  # noqa: ANN401
    """Give the numbers of the visible GPUs; like CUDA, up to the first that is none."""
    count = int(nvml.nvmlDeviceGetCount())
    if visible is None:
        return list(range(count))
    numbers: list[int] = []
    for name in visible.replace(" ", "").split(","):
        number = int(name) if name.isdigit() else _by_name(nvml, name, count)
        if number is None or number >= count:
            break
        numbers.append(number)
    return numbers


def _by_name(nvml: Any, name: str, count: int) -> int | None:  # noqa: ANN401
    with suppress(nvml.NVMLError):
        if name.startswith("MIG-"):
            part = nvml.nvmlDeviceGetHandleByUUID(name)
            whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)
            return int(nvml.nvmlDeviceGetIndex(whole))
        for number in range(count):
            told = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(number))
            if str(told).startswith(name) and name.startswith("GPU-"):
                return number
    return None


def _open(nvml: Any, number: int, tree: Tree) -> _Gpu:  # noqa: ANN401
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    return _Gpu(number, handle, _queries(nvml, handle, tree), open_monitor(nvml, handle))


def _queries(
    nvml: Any,  # noqa: ANN401
    handle: Any,  # noqa: ANN401
    tree: Tree,
) -> dict[str, Callable[[], float | None]]:
    return {
        "sm": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_util": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory,
        "memory_used": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "memory_total": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "clock_sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "clock_memory": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "throttle": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        "others": lambda: _others(nvml, handle, tree),
        **_bus(nvml, handle),
    }


def _bus(nvml: Any, handle: Any) -> dict[str, Callable[[], float | None]]:  # noqa: ANN401
    """Give the queries of the PCIe bus: counters if there are any, else what a 20 ms look says."""
    growth = Growth()
    fields = {
        "pcie_rx": nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
        "pcie_tx": nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
    }

    def counted(name: str) -> float | None:
        told = nvml.nvmlDeviceGetFieldValues(handle, [fields[name]])[0]
        if told.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(told.nvmlReturn)
        return growth.rate(name, int(told.timestamp) * 1000, int(told.value.ullVal))

    def looked(counter: int) -> float:
        return nvml.nvmlDeviceGetPcieThroughput(handle, counter) * _KIB

    try:
        counted("pcie_rx")
    except nvml.NVMLError:
        return {
            "pcie_rx": lambda: looked(nvml.NVML_PCIE_UTIL_RX_BYTES),
            "pcie_tx": lambda: looked(nvml.NVML_PCIE_UTIL_TX_BYTES),
        }
    return {name: (lambda name=name: counted(name)) for name in fields}


def _others(nvml: Any, handle: Any, tree: Tree) -> float:  # noqa: ANN401
    numbers = {int(each.pid) for each in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    return len(numbers - set(tree.members))


def _used(nvml: Any, gpus: list[_Gpu], tree: Tree) -> list[_Gpu]:  # noqa: ANN401
    """Give the GPUs that processes of the run compute on; all if that cannot be told."""
    ours = set(tree.members)
    found: list[_Gpu] = []
    for gpu in gpus:
        with suppress(nvml.NVMLError):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(gpu.handle)
            if ours & {int(each.pid) for each in running}:
                found.append(gpu)
    return found or gpus


def _values(nvml: Any, gpu: _Gpu, now: int, note: Note) -> Mapping[str, float | None]:  # noqa: ANN401
    values: dict[str, float | None] = {}
    for name, query in list(gpu.queries.items()):
        try:
            values[f"gpu{gpu.number}.{name}"] = query()
            gpu.failures.pop(name, None)
        except nvml.NVMLError as error:
            gpu.failures[name] = gpu.failures.get(name, 0) + 1
            if gpu.failures[name] >= _FAILURES:
                del gpu.queries[name]
                note(f"gpu{gpu.number}.{name}", f"NVML: {error}")
    if gpu.monitor is not None:
        try:
            told = gpu.monitor.read(now)
            values |= {f"gpu{gpu.number}.gpm.{name}": value for name, value in told.items()}
        except nvml.NVMLError as error:
            gpu.monitor = None
            note(f"gpu{gpu.number}.gpm", f"NVML: {error}")
    return values


def visible_devices() -> str | None:
    """Give which GPUs the command is allowed to see; ``None``: all."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")
