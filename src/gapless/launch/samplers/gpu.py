"""GPUs, by NVML, which makes no CUDA context: ``gpuN.*``, N as nvidia-smi numbers them.

``sm``, ``memory_util`` (share of time with a kernel running, with memory in use; per cent),
``memory_used``, ``memory_total`` (bytes), ``power`` (W), ``energy`` (J since the driver was
loaded), ``temperature`` (°C), ``clock_sm``, ``clock_memory`` (MHz), ``throttle`` (NVML's bits),
``pcie_rx``, ``pcie_tx`` (bytes/s, to and from the GPU), ``others`` (processes not of the run that
compute on it). Where the GPU has performance monitors (GPM; Hopper and later): ``gpm.active``,
``gpm.sm``, ``gpm.occupancy``, ``gpm.tensor``, ``gpm.dram`` in per cent, ``gpm.nvlink_rx`` and
``gpm.nvlink_tx`` in bytes/s. What changes slowly, and what takes long to ask, is in each fourth
sample only.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from msgspec import Struct, field

from gapless.launch.process_tree import Tree
from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, keep_observed
from gapless.launch.samplers.gpm import Monitor, open_monitor

Note = Callable[[str, str], None]
Figures = Mapping[str, float | None]
Query = Callable[[], Figures]
_MAX_FAILURES: Final = 3  # in a row, and a figure is given up
_USED_INTERVAL: Final = 12  # looks for one at which GPUs the run uses
_SELDOM_INTERVAL: Final = 4  # looks for one at what changes slowly
_KIB: Final = 1024
_asking = threading.Lock()  # the library is asked by one thread at a time: runs may be at once


class _Gpu(Struct):
    number: int
    handle: Any
    often: dict[str, Query]
    seldom: dict[str, Query]
    monitor: Monitor | None
    failures: dict[str, int] = field(default_factory=dict[str, int])


def open_sampler(tree: Tree, note: Note, visible: str | None) -> Sampler:
    """Return the sampler of the GPUs that ``CUDA_VISIBLE_DEVICES`` names, all if it is not set."""
    nvml = open_library()
    with _asking:
        gpus = [_open(nvml, number, tree) for number in visible_numbers(nvml, visible)]
    if not gpus:
        raise AbsentError("no GPU is visible to the command")
    looks, used = 0, gpus

    def sample(_: int) -> Values:
        with _asking:
            return look()

    def look() -> Values:
        nonlocal looks, used
        if looks % _USED_INTERVAL == 0:
            used = _find_used(nvml, gpus, tree)
        values: dict[str, float | None] = {}
        for gpu in used:
            _run_queries(nvml, gpu, gpu.often, values, note)
            if looks % _SELDOM_INTERVAL == 0:
                _run_queries(nvml, gpu, gpu.seldom, values, note)
            _read_monitor(nvml, gpu, values, note)
        looks += 1
        return keep_observed(values)

    return sample


def open_library() -> Any:  # noqa: ANN401 - pynvml has no types
    """Return pynvml, started. Raises ``AbsentError`` where there is no driver."""
    nvml: Any = import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise AbsentError(f"NVML: {error}") from None
    return nvml


def visible_numbers(nvml: Any, visible: str | None) -> list[int]:  # noqa: ANN401
    """Return the numbers of the visible GPUs; like CUDA, up to the first that is none."""
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
            mig_handle = nvml.nvmlDeviceGetHandleByUUID(name)
            gpu_handle = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig_handle)
            return int(nvml.nvmlDeviceGetIndex(gpu_handle))
        for number in range(count):
            uuid = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(number))
            if str(uuid).startswith(name) and name.startswith("GPU-"):
                return number
    return None


def _open(nvml: Any, number: int, tree: Tree) -> _Gpu:  # noqa: ANN401
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    often, seldom = _step_queries(nvml, handle), _seldom(nvml, handle, tree)
    return _Gpu(number, handle, often, seldom, open_monitor(nvml, handle))


def _step_queries(nvml: Any, handle: Any) -> dict[str, Query]:  # noqa: ANN401
    """Return the queries of each look: what changes from step to step."""

    def busy() -> Figures:
        usage = nvml.nvmlDeviceGetUtilizationRates(handle)
        return {"sm": usage.gpu, "memory_util": usage.memory}

    return {
        "sm": busy,
        "power": lambda: {"power": nvml.nvmlDeviceGetPowerUsage(handle) / 1000},
        "clock_sm": lambda: {"clock_sm": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)},
        "throttle": lambda: {"throttle": nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)},
    }


def _seldom(nvml: Any, handle: Any, tree: Tree) -> dict[str, Query]:  # noqa: ANN401
    """Return the queries of some looks: what changes slowly, counters, what takes long to ask."""

    def memory() -> Figures:
        usage = nvml.nvmlDeviceGetMemoryInfo(handle)
        return {"memory_used": usage.used, "memory_total": usage.total}

    def energy() -> Figures:
        return {"energy": nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000}

    def temperature() -> Figures:
        return {"temperature": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)}

    def clock() -> Figures:
        return {"clock_memory": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)}

    return {
        "memory_used": memory,
        "energy": energy,
        "temperature": temperature,
        "clock_memory": clock,
        "others": lambda: {"others": _count_others(nvml, handle, tree)},
        "pcie": _bus(nvml, handle),
    }


def _bus(nvml: Any, handle: Any) -> Query:  # noqa: ANN401
    """Return the query of the PCIe bus: its counters if there are any, else two looks of 20 ms."""
    growth = Growth()
    fields = {
        "pcie_rx": nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
        "pcie_tx": nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
    }

    def read_counters() -> Figures:
        readings = nvml.nvmlDeviceGetFieldValues(handle, list(fields.values()))
        for reading in readings:
            if reading.nvmlReturn != nvml.NVML_SUCCESS:
                raise nvml.NVMLError(reading.nvmlReturn)
        return {
            name: growth.rate(name, int(reading.timestamp) * 1000, int(reading.value.ullVal))
            for name, reading in zip(fields, readings, strict=True)
        }

    def sample_throughput() -> Figures:
        counters = {
            "pcie_rx": nvml.NVML_PCIE_UTIL_RX_BYTES,
            "pcie_tx": nvml.NVML_PCIE_UTIL_TX_BYTES,
        }
        return {
            name: nvml.nvmlDeviceGetPcieThroughput(handle, counter) * _KIB
            for name, counter in counters.items()
        }

    try:
        read_counters()
    except nvml.NVMLError:
        return sample_throughput
    return read_counters


def _count_others(nvml: Any, handle: Any, tree: Tree) -> float:  # noqa: ANN401
    numbers = {int(process.pid) for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    return len(numbers - set(tree.members))


def _find_used(nvml: Any, gpus: list[_Gpu], tree: Tree) -> list[_Gpu]:  # noqa: ANN401
    """Return the GPUs that processes of the run compute on; all if that cannot be told."""
    ours = set(tree.members)
    used_gpus: list[_Gpu] = []
    for gpu in gpus:
        with suppress(nvml.NVMLError):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(gpu.handle)
            if ours & {int(process.pid) for process in running}:
                used_gpus.append(gpu)
    return used_gpus or gpus


def _run_queries(
    nvml: Any,  # noqa: ANN401
    gpu: _Gpu,
    queries: dict[str, Query],
    values: dict[str, float | None],
    note: Note,
) -> None:
    """Add what queries of a GPU say; one that fails again and again is given up and noted."""
    for name, query in list(queries.items()):
        try:
            values |= {f"gpu{gpu.number}.{figure}": value for figure, value in query().items()}
            gpu.failures.pop(name, None)
        except nvml.NVMLError as error:
            gpu.failures[name] = gpu.failures.get(name, 0) + 1
            if gpu.failures[name] >= _MAX_FAILURES:
                del queries[name]
                note(f"gpu{gpu.number}.{name}", f"NVML: {error}")


def _read_monitor(nvml: Any, gpu: _Gpu, values: dict[str, float | None], note: Note) -> None:  # noqa: ANN401
    if gpu.monitor is None:
        return
    try:
        metrics = gpu.monitor.read()
        values |= {f"gpu{gpu.number}.gpm.{name}": value for name, value in metrics.items()}
    except nvml.NVMLError as error:
        gpu.monitor = None
        note(f"gpu{gpu.number}.gpm", f"NVML: {error}")


def visible_devices() -> str | None:
    """Return which GPUs the command is allowed to see; ``None``: all."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")
