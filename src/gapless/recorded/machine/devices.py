"""How GPUs were doing while they worked: their clocks, what held them back, who else used them.

Reduced from what was sampled; NVML's bits tell why a clock is below what it could be.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.model.recording import Samples
from gapless.model.run import DeviceState
from gapless.model.trace import Int64

_MIN_BUSY_PERCENT: Final = 50.0  # per cent of the time between two looks in which a kernel ran
_MIN_LOOKS: Final = 5  # looks: with fewer nothing is reported
CLOCK_REASONS: Final[Mapping[str, int]] = {
    "heat": 0x20 | 0x40,
    "power": 0x04,
    "a power brake": 0x80,
    "a slow-down of the hardware": 0x08,
    "a clock that was set": 0x02,
}
Float = npt.NDArray[np.float64]
SampleColumns = Mapping[str, tuple[Int64, tuple[float, ...]]]


def device_states(samples: Samples) -> tuple[DeviceState, ...]:
    """Return the state of each sampled GPU, by number."""
    numbers = {
        int(matched[1]) for name in samples.series if (matched := re.match(r"gpu(\d+)\.", name))
    }
    return tuple(_device_state(samples.series, number) for number in sorted(numbers))


def _device_state(series: SampleColumns, number: int) -> DeviceState:
    def column(name: str) -> tuple[Int64, Float]:
        times, values = series.get(f"gpu{number}.{name}", (np.empty(0, np.int64), ()))
        return times, np.array(values, np.float64)

    times, busy = column("sm")
    is_working = _values_at(column("clock_sm")[0], times, busy) >= _MIN_BUSY_PERCENT
    clocks = column("clock_sm")[1]
    throttle = column("throttle")
    held_bits = throttle[1][_values_at(throttle[0], times, busy) >= _MIN_BUSY_PERCENT].astype(
        np.int64
    )
    other_processes, used_bytes, total_bytes = (
        column("others")[1],
        column("memory_used")[1],
        column("memory_total")[1],
    )
    celsius = column("temperature")[1]
    has_clock = is_working.sum() >= _MIN_LOOKS
    return DeviceState(
        number=number,
        busy=float(busy.mean()) / 100 if len(busy) else None,
        clock_mhz=float(clocks[is_working].mean()) if has_clock else None,
        best_mhz=float(clocks.max()) if len(clocks) else None,
        held=dict(_held_shares(held_bits)) if len(held_bits) >= _MIN_LOOKS else {},
        others=float((other_processes > 0).mean()) if len(other_processes) >= _MIN_LOOKS else None,
        memory_peak=int(used_bytes.max()) if len(used_bytes) else None,
        memory_total=int(total_bytes.max()) if len(total_bytes) else None,
        celsius=float(celsius.max()) if len(celsius) else None,
    )


def _values_at(instants: Int64, times: Int64, values: Float) -> Float:
    """Return the value of the look at or before each instant; 0 before the first."""
    if not len(times):
        return np.zeros(len(instants))
    position = np.searchsorted(times, instants, side="right") - 1
    return np.where(position >= 0, values[np.maximum(position, 0)], 0.0)


def _held_shares(bits: Int64) -> Iterator[tuple[str, float]]:
    """Return the share of looks in which something held the clock back, by cause."""
    for reason, mask in CLOCK_REASONS.items():
        share = float(((bits & mask) > 0).mean())
        if share:
            yield reason, share
