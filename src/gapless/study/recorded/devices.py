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

_WORKS: Final = 50.0  # per cent of the time between two looks in which a kernel ran
_FEW: Final = 5  # looks: of fewer nothing is said
_REASONS: Final[Mapping[str, int]] = {
    "heat": 0x20 | 0x40,
    "power": 0x04,
    "a power brake": 0x80,
    "a slow-down of the hardware": 0x08,
    "a clock that was set": 0x02,
}
Float = npt.NDArray[np.float64]
Columns = Mapping[str, tuple[Int64, tuple[float, ...]]]


def device_states(samples: Samples) -> tuple[DeviceState, ...]:
    """Give how each sampled GPU was doing, by number."""
    numbers = {int(found[1]) for name in samples.series if (found := re.match(r"gpu(\d+)\.", name))}
    return tuple(_state(samples.series, number) for number in sorted(numbers))


def _state(series: Columns, number: int) -> DeviceState:
    def column(name: str) -> tuple[Int64, Float]:
        at, values = series.get(f"gpu{number}.{name}", (np.empty(0, np.int64), ()))
        return at, np.array(values, np.float64)

    at, busy = column("sm")
    works = _at(column("clock_sm")[0], at, busy) >= _WORKS
    clocks = column("clock_sm")[1]
    reasons = column("throttle")
    held = reasons[1][_at(reasons[0], at, busy) >= _WORKS].astype(np.int64)
    others, used, whole = column("others")[1], column("memory_used")[1], column("memory_total")[1]
    hot = column("temperature")[1]
    known = works.sum() >= _FEW
    return DeviceState(
        number=number,
        busy=float(busy.mean()) / 100 if len(busy) else None,
        clock_mhz=float(clocks[works].mean()) if known else None,
        best_mhz=float(clocks.max()) if len(clocks) else None,
        held=dict(_held(held)) if len(held) >= _FEW else {},
        others=float((others > 0).mean()) if len(others) >= _FEW else None,
        memory_peak=int(used.max()) if len(used) else None,
        memory_total=int(whole.max()) if len(whole) else None,
        celsius=float(hot.max()) if len(hot) else None,
    )


def _at(when: Int64, at: Int64, values: Float) -> Float:
    """Give the value of the look at or before each instant; 0 before the first."""
    if not len(at):
        return np.zeros(len(when))
    place = np.searchsorted(at, when, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], 0.0)


def _held(bits: Int64) -> Iterator[tuple[str, float]]:
    """Give the share of looks in which something held the clock back, by what it was."""
    for reason, mask in _REASONS.items():
        share = float(((bits & mask) > 0).mean())
        if share:
            yield reason, share
