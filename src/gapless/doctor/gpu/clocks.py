"""Clocks of the GPUs, and what holds them down."""

from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuLoad, GpuReading
from gapless.doctor.subject import CheckSubject

# Bits of NVML's clocks event reasons (nvml.h).
_SET_CLOCKS: Final = 0x2
_POWER: Final = 0x4
_HARDWARE: Final = {
    0x8: "the hardware slowed it down",
    0x40: "it is too hot (hardware)",
    0x80: "the power supply asked for it",
}
_HEAT: Final = 0x20
_MIN_SAMPLE_SHARE: Final = 0.1
_MIN_CLOCK_RATIO: Final = 0.8  # of the highest clock that the card has


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at what holds clocks down: heat, the power supply, clocks that somebody set.

    A card at its power limit while it multiplies large matrices works as designed.
    """
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
    reasons = _list_reasons(gpu)
    if reasons is None:
        return unknown("NVML does not show its clocks")
    words = _describe_clock(gpu)
    cooling = f"nvidia-smi -q -d TEMPERATURE,POWER,PERFORMANCE -i {NUMBERS}"
    for bit, reason in _HARDWARE.items():
        if bit in reasons:
            return bad(f"{reason}; {words}", cooling)
    if _HEAT in reasons:
        return warn(f"it is too hot; {words}", cooling)
    if _SET_CLOCKS in reasons:
        return warn(
            f"its clocks are limited by a setting; {words}",
            f"sudo nvidia-smi -i {NUMBERS} -rac; sudo nvidia-smi -i {NUMBERS} -rgc",
        )
    is_slow = _is_slow(gpu) and _POWER not in reasons
    return warn(f"{words}, and nothing says why", cooling) if is_slow else ok(words)


def _list_reasons(gpu: GpuReading) -> frozenset[int] | None:
    """Return the bits that were set: under load in some of the samples, else now."""
    if gpu.load is not None and gpu.load.samples:
        return frozenset(
            bit for bit, share in gpu.load.throttled.items() if share >= _MIN_SAMPLE_SHARE
        )
    if gpu.throttle is None:
        return None
    return frozenset(
        1 << place for place in range(gpu.throttle.bit_length()) if gpu.throttle >> place & 1
    )


def _is_slow(gpu: GpuReading) -> bool:
    if gpu.load is None or gpu.load.clock_mhz is None or not gpu.max_clock_mhz:
        return False
    return gpu.load.clock_mhz < _MIN_CLOCK_RATIO * gpu.max_clock_mhz


def _describe_clock(gpu: GpuReading) -> str:
    load = gpu.load
    clock = gpu.clock_mhz if load is None or load.clock_mhz is None else load.clock_mhz
    state = "at rest" if load is None else "at most while it was measured"
    words = f"{clock} of {gpu.max_clock_mhz} MHz {state}"
    return words if load is None else f"{words}{_describe_power(load)}"


def _describe_power(load: GpuLoad) -> str:
    share = load.throttled.get(_POWER, 0.0)
    return f", at its power limit in {share:.0%} of the samples" if share else ""
