"""GPUs while they are measured: the link, clocks and heat under load, a few times a second."""

import threading
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from gapless.doctor.gpus import GpuLoad, GpuReading, GpuSurvey, read_link
from gapless.launch.unobserved import contain_failures

_PERIOD_S: Final = 0.1
_MIN_BUSY_PERCENT: Final = 50  # of the time: below it, a sample is not one of load


class _Sightings(Struct):
    """What was seen so far of one GPU."""

    samples: int = 0
    links: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    clocks: list[int] = field(default_factory=list[int])
    temperatures: list[int] = field(default_factory=list[int])
    bits: Counter[int] = field(default_factory=Counter[int])

    def sum_up(self) -> GpuLoad:
        """Return the highest of each, and how often each bit was set."""
        return GpuLoad(
            samples=self.samples,
            link=max(self.links, default=None),
            clock_mhz=max(self.clocks, default=None),
            temperature_c=max(self.temperatures, default=None),
            throttled={bit: count / self.samples for bit, count in self.bits.items()},
        )


@contextmanager
def watch_load(nvml: Any, number: int) -> Generator[list[GpuLoad]]:  # noqa: ANN401
    """Watch a GPU while the block runs; afterwards the list holds what was seen, if anything."""
    loads: list[GpuLoad] = []
    sightings, stop = _Sightings(), threading.Event()

    def watch() -> None:
        with contain_failures():
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            while not stop.wait(_PERIOD_S):
                with contain_failures():
                    _look(nvml, handle, sightings)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield loads
    finally:
        stop.set()
        thread.join(1.0)
        if sightings.samples:
            loads.append(sightings.sum_up())


def _look(nvml: Any, handle: Any, sightings: _Sightings) -> None:  # noqa: ANN401
    """Add a sample, if the GPU is busy."""
    if nvml.nvmlDeviceGetUtilizationRates(handle).gpu < _MIN_BUSY_PERCENT:
        return
    throttle = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    sightings.samples += 1
    sightings.bits.update(
        1 << place for place in range(throttle.bit_length()) if throttle >> place & 1
    )
    sightings.clocks.append(int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)))
    link = read_link(nvml, handle)
    sightings.links += [] if link is None else [link]
    temperature = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
    sightings.temperatures.append(int(temperature))


def add_loads(survey: GpuSurvey, loads: Mapping[int, GpuLoad]) -> GpuSurvey:
    """Return a survey with what was seen of its GPUs under load, by their numbers."""
    gpus: tuple[GpuReading, ...] = tuple(
        replace(gpu, load=loads.get(gpu.number)) for gpu in survey.gpus
    )
    return replace(survey, gpus=gpus)
