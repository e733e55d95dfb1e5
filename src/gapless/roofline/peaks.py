"""The most that a machine computes and moves: measured, else as known of its generation."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gapless.model.estimate import Estimate
from gapless.model.machine import Constants

FORMATS: Final = ("fp64", "fp32", "tf32", "bf16", "fp16")
_KERNEL_NS: Final = 2000.0  # a kernel that does nothing, and the gap after it
_MEASURED_SPREAD: Final = (0.95, 1.0, 1.05)
# Of processors, measured at another time: a host was seen to be 1.7 times slower, with nobody else
# on it (its clock, its neighbours).
_PROCESSOR_SPREAD: Final = (0.77, 1.0, 1.3)
_GENERATION_SPREAD: Final = (0.8, 1.0, 1.3)  # of a generation: its members differ by this factor
# Operations and bytes per second that products and copies reach, from data sheets less a fifth:
# fp64, fp32, tf32, bf16, fp16, memory. 0: it has none.
_GENERATIONS: Final[Mapping[tuple[int, int], tuple[float, ...]]] = {
    (7, 0): (6e12, 13e12, 0, 0, 90e12, 0.8e12),  # V100
    (7, 5): (0.2e12, 7e12, 0, 0, 40e12, 0.26e12),  # T4
    (8, 0): (16e12, 17e12, 120e12, 240e12, 240e12, 1.5e12),  # A100
    (8, 6): (0.4e12, 25e12, 35e12, 70e12, 70e12, 0.6e12),  # A10, RTX 30
    (8, 9): (0.8e12, 50e12, 65e12, 140e12, 140e12, 0.7e12),  # L4, L40, RTX 40
    (9, 0): (50e12, 48e12, 320e12, 680e12, 680e12, 2.8e12),  # H100, H200
    (10, 0): (35e12, 65e12, 800e12, 1500e12, 1500e12, 6.5e12),  # B200
    (12, 0): (1e12, 80e12, 85e12, 180e12, 180e12, 1.4e12),  # RTX 50
}
# Bytes per second where members of a generation differ, by a part of the device's name.
_MEMORY: Final[Mapping[str, float]] = {"H200": 4.1e12, "GH200": 3.5e12, "A100-SXM4-80GB": 1.7e12}


class Peaks(Struct, frozen=True):
    """Operations a second by format, bytes a second; each with how far it is known."""

    flops: Mapping[str, float]
    bandwidth: float
    spread: Estimate  # the uncertainty factor of a time computed from them
    kernel_ns: float
    measured: bool


def device_peaks(
    constants: Constants | None, capability: tuple[int, int] | None, name: str | None = None
) -> Peaks | None:
    """Return a device's peaks; ``None`` where neither it nor its generation is known."""
    if constants is not None:
        flops = {name: constants.value(f"gemm.{name}") for name in FORMATS}
        bandwidth = constants.value("memory.triad") or constants.value("memory.copy")
        known_flops = {name: value for name, value in flops.items() if value}
        if bandwidth and known_flops:
            period = constants.value("kernel.period")
            return Peaks(
                known_flops,
                bandwidth,
                Estimate(*_MEASURED_SPREAD),
                period or _KERNEL_NS,
                measured=True,
            )
    generation = None if capability is None else _GENERATIONS.get(capability)
    if generation is None:
        return None
    known_flops = {name: value for name, value in zip(FORMATS, generation, strict=False) if value}
    named_speeds = [speed for label, speed in _MEMORY.items() if name is not None and label in name]
    bandwidth = named_speeds[-1] if named_speeds else generation[-1]
    return Peaks(known_flops, bandwidth, Estimate(*_GENERATION_SPREAD), _KERNEL_NS, measured=False)


def processor_peaks(constants: Constants | None, threads: int | None) -> Peaks | None:
    """Return the processors' peaks with so many threads; ``None`` where they were not measured."""
    if constants is None:
        return None
    flops_by_threads = dict(constants.series("cpu.gemm.fp32"))
    speed_by_threads = dict(constants.series("cpu.memory.triad"))
    if not flops_by_threads or not speed_by_threads:
        return None
    nearest = _find_nearest(flops_by_threads, threads)
    flops = {"fp32": flops_by_threads[nearest]}
    max_threads = max(flops_by_threads)
    for name in ("fp64", "bf16"):  # measured with all threads
        value = dict(constants.series(f"cpu.gemm.{name}")).get(max_threads)
        if value is not None:
            flops[name] = value / flops_by_threads[max_threads] * flops_by_threads[nearest]
    bandwidth = speed_by_threads[_find_nearest(speed_by_threads, threads)]
    return Peaks(flops, bandwidth, Estimate(*_PROCESSOR_SPREAD), 0.0, measured=True)


def _find_nearest(by_threads: Mapping[int, float], threads: int | None) -> int:
    target = max(by_threads) if threads is None else threads
    return min(by_threads, key=lambda count: abs(count - target))
