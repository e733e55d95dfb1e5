"""GPUs as NVML shows them, at rest: read once, without a CUDA context."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from gapless.launch.samplers import AbsentError
from gapless.launch.samplers.gpu import open_library, visible_numbers

_TEXT: Final = "utf-8"
_THOUSAND: Final = 1000
_TEN: Final = 10


class GpuLoad(Struct, frozen=True):
    """What was seen of a GPU while it was measured."""

    samples: int
    link: tuple[int, int] | None  # PCIe generation and lanes, the highest seen
    clock_mhz: int | None  # of the SMs, the highest seen
    temperature_c: int | None
    throttled: dict[int, float]  # NVML's bit: share of the samples in which it was set


class GpuReading(Struct, frozen=True):
    """A GPU; ``None``: NVML does not say."""

    number: int  # as nvidia-smi counts
    name: str | None = None
    uuid: str | None = None
    capability: tuple[int, int] | None = None
    bus: str | None = None  # "0000:1b:00.0", as the kernel writes it
    link: tuple[int, int] | None = None  # PCIe generation and lanes, now
    max_link: tuple[int, int] | None = None  # that card and slot can do together
    persistent: bool | None = None
    ecc: bool | None = None
    uncorrected_errors: int | None = None  # since the driver was loaded
    remapped: tuple[int, int, bool, bool] | None = None  # corrected, not, pending, failed
    mig: bool | None = None
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    throttle: int | None = None  # NVML's bits
    temperature_c: int | None = None
    slowdown_c: int | None = None  # it slows itself down from there on
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    processes: tuple[int, ...] | None = None  # that compute on it, by number
    memory_used: int | None = None
    memory_total: int | None = None
    busy_percent: int | None = None
    load: GpuLoad | None = None  # None: nothing was measured on it


class GpuSurvey(Struct, frozen=True):
    """The GPUs that a training here would see, and their driver."""

    gpus: tuple[GpuReading, ...] = ()
    why: str | None = None  # there are none, or none was seen
    driver: str | None = None  # "570.124.06"
    cuda: tuple[int, int] | None = None  # the highest version that the driver knows


def survey_gpus(visible: str | None, nvml: Any = None) -> GpuSurvey:  # noqa: ANN401
    """Read the GPUs that ``CUDA_VISIBLE_DEVICES`` names; ``nvml`` stands in for pynvml."""
    try:
        nvml = open_library() if nvml is None else nvml
        numbers = visible_numbers(nvml, visible)
    except AbsentError as error:
        return GpuSurvey(why=f"no GPU was seen ({error})")
    readings = tuple(_read_gpu(nvml, number) for number in numbers)
    version = _ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    hidden = "CUDA_VISIBLE_DEVICES hides all GPUs" if visible is not None else "there is no GPU"
    return GpuSurvey(
        readings,
        None if readings else hidden,
        _as_text(_ask(nvml, nvml.nvmlSystemGetDriverVersion)),
        None if version is None else (version // _THOUSAND, version % _THOUSAND // _TEN),
    )


def _read_gpu(nvml: Any, number: int) -> GpuReading:  # noqa: ANN401
    handle = _ask(nvml, nvml.nvmlDeviceGetHandleByIndex, number)
    if handle is None:
        return GpuReading(number)

    def ask(name: str, *arguments: object) -> Any:  # noqa: ANN401
        return _ask(nvml, getattr(nvml, name, None), handle, *arguments)

    memory, usage = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetUtilizationRates")
    running = ask("nvmlDeviceGetComputeRunningProcesses")
    address = ask("nvmlDeviceGetPciInfo")
    ecc, mig = ask("nvmlDeviceGetEccMode"), ask("nvmlDeviceGetMigMode")
    persistent, remapped = (
        ask("nvmlDeviceGetPersistenceMode"),
        ask("nvmlDeviceGetRemappedRows"),
    )
    return GpuReading(
        number=number,
        name=_as_text(ask("nvmlDeviceGetName")),
        uuid=_as_text(ask("nvmlDeviceGetUUID")),
        capability=_as_pair(ask("nvmlDeviceGetCudaComputeCapability")),
        bus=None if address is None else _bus_name(_as_text(address.busId)),
        link=read_link(nvml, handle),
        max_link=_pair(
            ask("nvmlDeviceGetMaxPcieLinkGeneration"), ask("nvmlDeviceGetMaxPcieLinkWidth")
        ),
        persistent=None if persistent is None else bool(persistent),
        ecc=None if ecc is None else bool(ecc[0]),
        uncorrected_errors=ask("nvmlDeviceGetTotalEccErrors", 1, 0),
        remapped=None
        if remapped is None
        else (remapped[0], remapped[1], bool(remapped[2]), bool(remapped[3])),
        mig=None if mig is None else bool(mig[0]),
        clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        max_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        throttle=ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        temperature_c=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        slowdown_c=ask("nvmlDeviceGetTemperatureThreshold", 1),
        power_limit_w=_as_watts(ask("nvmlDeviceGetEnforcedPowerLimit")),
        default_power_limit_w=_as_watts(ask("nvmlDeviceGetPowerManagementDefaultLimit")),
        processes=None if running is None else tuple(int(process.pid) for process in running),
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        busy_percent=None if usage is None else int(usage.gpu),
    )


def read_link(nvml: Any, handle: Any) -> tuple[int, int] | None:  # noqa: ANN401
    """Return the generation and the lanes that a GPU's PCIe link has now."""
    return _pair(
        _ask(nvml, nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        _ask(nvml, nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
    )


def _ask(nvml: Any, query: Callable[..., Any] | None, *arguments: object) -> Any:  # noqa: ANN401
    """Return what NVML answers; ``None`` where it refuses, or is too old to know the question."""
    if query is not None:
        with suppress(nvml.NVMLError):
            return query(*arguments)
    return None


def _as_text(value: Any) -> str | None:  # noqa: ANN401
    """Return a text, which old versions of pynvml give as bytes."""
    return value.decode(_TEXT, "replace") if isinstance(value, bytes) else value


def _as_pair(value: Any) -> tuple[int, int] | None:  # noqa: ANN401
    return None if value is None else (int(value[0]), int(value[1]))


def _pair(first: int | None, second: int | None) -> tuple[int, int] | None:
    return None if not first or not second else (first, second)


def _as_watts(milliwatts: float | None) -> float | None:
    return None if milliwatts is None else milliwatts / _THOUSAND


def _bus_name(address: str | None) -> str | None:
    """Return an address as the kernel names it: NVML's domain has eight digits, its four."""
    if address is None:
        return None
    domain, _, slot = address.lower().partition(":")
    return f"{domain[-4:]}:{slot}"
