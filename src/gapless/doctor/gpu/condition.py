"""How the GPUs are: memory errors, clocks, heat, power."""

from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, judge_each_gpu, ok, unknown, warn
from gapless.doctor.gpus import GpuLoad, GpuReading

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
_MIN_MARGIN_C: Final = 3
_WANTED_MARGIN_C: Final = 10
_MIN_LIMIT_SHARE: Final = 0.98  # of the default


@judge_each_gpu
def examine_memory_errors(gpu: GpuReading) -> CheckAnswer:
    """Look at ECC: errors that were not corrected, rows of memory that failed or wait for a reset.

    Cards without ECC (GeForce) compute on, unseen, with a bit that was turned.
    """
    _, _, is_pending, has_failed = gpu.remapped or (0, 0, False, False)
    reset = f"end what runs on it, then: sudo nvidia-smi --gpu-reset -i {NUMBERS}"
    if has_failed:
        return bad(
            "a row of its memory failed, and none was left to replace it", "replace the card"
        )
    if gpu.uncorrected_errors:
        return bad(f"{gpu.uncorrected_errors} memory errors were not corrected", reset)
    if is_pending:
        return warn("a row of its memory is to be replaced at the next reset", reset)
    if gpu.ecc is None:
        return ok("it has no ECC, or does not show it") if gpu.name else unknown("it is not seen")
    return ok("ECC on, no error since the driver was loaded" if gpu.ecc else "ECC is off")


@judge_each_gpu
def examine_clocks(gpu: GpuReading) -> CheckAnswer:
    """Look at what holds clocks down: heat, the power supply, clocks that somebody set.

    A card at its power limit while it multiplies large matrices works as designed.
    """
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


@judge_each_gpu
def examine_temperature(gpu: GpuReading) -> CheckAnswer:
    """Compare temperatures with the one at which a card slows itself down."""
    loaded = gpu.load.temperature_c if gpu.load is not None else None
    temperature = gpu.temperature_c if loaded is None else loaded
    if temperature is None:
        return unknown("NVML does not show its temperature")
    state = "at rest" if loaded is None else "while it was measured"
    if gpu.slowdown_c is None:
        return ok(f"{temperature} °C {state}")
    evidence = f"{temperature} °C {state}; it slows down at {gpu.slowdown_c} °C"
    margin = gpu.slowdown_c - temperature
    remedy = f"see to fans and air: nvidia-smi -q -d TEMPERATURE -i {NUMBERS}"
    if margin <= _MIN_MARGIN_C:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if margin <= _WANTED_MARGIN_C else ok(evidence)


@judge_each_gpu
def examine_power(gpu: GpuReading) -> CheckAnswer:
    """Compare the power limit with the card's own."""
    limit, default = gpu.power_limit_w, gpu.default_power_limit_w
    if limit is None or default is None:
        return unknown("NVML does not show its power limit")
    evidence = f"{limit:.0f} W, by default {default:.0f} W"
    if limit < _MIN_LIMIT_SHARE * default:
        return warn(
            f"{evidence}: large products run slower",
            f"sudo nvidia-smi -i {NUMBERS} -pl {default:.0f}",
        )
    return ok(evidence)
