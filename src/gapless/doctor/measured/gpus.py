"""What was measured on each GPU, against what it is known to reach."""

from collections.abc import Callable
from functools import wraps
from typing import Final

from gapless.doctor.answers import (
    NUMBERS,
    CheckAnswer,
    Examine,
    bad,
    examine_gpus,
    explain_absence,
    ok,
    unknown,
    warn,
)
from gapless.doctor.gpus import GpuReading
from gapless.doctor.measured.peaks import LANE_RATES, find_peaks
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants
from gapless.report.text.numbers import rate, span

# Of the data sheet's peak, which is at the boost clock: products of random numbers reach two thirds
# on a card that is well, and less where its power does not suffice for that clock (L4, T4).
_WANTED_PRODUCTS_SHARE: Final = 0.4
_MIN_PRODUCTS_SHARE: Final = 0.2
_POWER: Final = 0x4  # NVML's bit: the power limit holds the clock down
_HELD_SHARE: Final = 0.5  # of the samples under load
_HALF: Final = ("bf16", "fp16")
_T: Final = 1e12
_WANTED_MEMORY_SHARE: Final = 0.7  # of the data sheet's: 0.85 to 0.93 is usual
_MIN_MEMORY_SHARE: Final = 0.4
_WANTED_COPIES_SHARE: Final = 0.6  # of what the link carries: 0.8 to 0.9 is usual
_MIN_COPIES_SHARE: Final = 0.25
_PINNED: Final = "copy.h2d.pinned.bandwidth"
# ns of a launch: 2 to 5 µs is usual on processors of servers, more on slow or virtual ones.
_WANTED_NS: Final = 12_000
_MAX_NS: Final = 40_000
_CALL: Final = "launch.call"


def _judge_each_gpu(judge: Callable[[GpuReading, Constants], CheckAnswer]) -> Examine:
    """Judge what was measured on each GPU; unknown, with the reason, where nothing was."""

    @wraps(judge)
    def examine(subject: CheckSubject) -> CheckAnswer:
        constants_by_gpu = {
            measurement.number: measurement.constants for measurement in subject.gpu_measurements
        }

        def examine_gpu(gpu: GpuReading) -> CheckAnswer:
            constants = constants_by_gpu.get(gpu.number)
            return unknown("it was not measured") if constants is None else judge(gpu, constants)

        return examine_gpus(subject.survey, examine_gpu)

    return examine


@_judge_each_gpu
def examine_products(gpu: GpuReading, constants: Constants) -> CheckAnswer:
    """Compare products of large matrices in half precision with the card's data sheet."""
    rates = {name: constants.value(f"gemm.{name}") for name in (*_HALF, "tf32", "fp32")}
    half = max((rate for name in _HALF if (rate := rates[name]) is not None), default=None)
    if half is None:
        return unknown(explain_absence(constants, "gemm.fp16"))
    words = ", ".join(f"{name} {rate / _T:.3g}" for name, rate in rates.items() if rate is not None)
    evidence = f"TFLOP/s: {words}"
    peaks = find_peaks(gpu.name if gpu.mig is not True else None)
    if peaks is None:
        return ok(f"{evidence}; the peak of {gpu.name} is not listed")
    share = half / peaks.half
    evidence += f"; {share:.0%} of the {peaks.half / _T:.4g} of its data sheet"
    remedy = f"nvidia-smi -q -d CLOCK,POWER,PERFORMANCE -i {NUMBERS}"
    if share < _MIN_PRODUCTS_SHARE:
        return bad(evidence, remedy)
    if share < _WANTED_PRODUCTS_SHARE:
        is_held = gpu.load is not None and gpu.load.throttled.get(_POWER, 0.0) >= _HELD_SHARE
        return ok(f"{evidence}, which its power limits") if is_held else warn(evidence, remedy)
    return ok(evidence)


@_judge_each_gpu
def examine_memory(gpu: GpuReading, constants: Constants) -> CheckAnswer:
    """Compare passes over buffers with the memory bandwidth of the card's data sheet."""
    names = ("memory.triad", "memory.copy")
    speeds = [speed for name in names if (speed := constants.value(name)) is not None]
    if not speeds:
        return unknown(explain_absence(constants, names[0]))
    speed = max(speeds)
    peaks = find_peaks(gpu.name if gpu.mig is not True else None)
    if peaks is None:
        return ok(f"{rate(speed)}; the peak of {gpu.name} is not listed")
    share = speed / peaks.memory
    evidence = f"{rate(speed)}, {share:.0%} of the {rate(peaks.memory)} of its data sheet"
    remedy = f"nvidia-smi -q -d CLOCK,ECC,ROW_REMAPPER -i {NUMBERS}"
    if share < _MIN_MEMORY_SHARE:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if share < _WANTED_MEMORY_SHARE else ok(evidence)


@_judge_each_gpu
def examine_copies(gpu: GpuReading, constants: Constants) -> CheckAnswer:
    """Compare copies from pinned memory with what the PCIe link of card and slot carries."""
    names = {"to it": _PINNED, "back": "copy.d2h.pinned.bandwidth"}
    speeds = {label: constants.value(name) for label, name in names.items()}
    known_speeds = {label: speed for label, speed in speeds.items() if speed is not None}
    if not known_speeds:
        return unknown(explain_absence(constants, _PINNED))
    words = ", ".join(f"{rate(speed)} {label}" for label, speed in known_speeds.items())
    pageable = constants.value("copy.h2d.pageable.bandwidth")
    evidence = f"{words} (pinned)"
    if pageable is not None:
        evidence += f", {rate(pageable)} to it from pageable memory"
    if gpu.max_link is None or gpu.max_link[0] not in LANE_RATES:
        return ok(f"{evidence}; what its link carries is not known")
    generation, lanes = gpu.max_link
    peak = LANE_RATES[generation] * lanes
    share = min(known_speeds.values()) / peak
    evidence += f"; PCIe {generation} × {lanes} carries {rate(peak)}"
    remedy = "nvidia-smi topo -m; numactl --cpunodebind=NODE of the GPU python train.py"
    if share < _MIN_COPIES_SHARE:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if share < _WANTED_COPIES_SHARE else ok(evidence)


@_judge_each_gpu
def examine_launches(_: GpuReading, constants: Constants) -> CheckAnswer:
    """Look at the host's time for a launch: with many small kernels it bounds the step."""
    call = constants.value(_CALL)
    if call is None:
        return unknown(explain_absence(constants, _CALL))
    other_speeds = {
        "an operator": constants.value("launch.op"),
        "a launch and the wait for it": constants.value("launch.round"),
    }
    words = [f"{span(ns)} for {label}" for label, ns in other_speeds.items() if ns is not None]
    evidence = ", ".join((f"{span(call)} for a launch", *words))
    remedy = "sudo cpupower frequency-set -g performance; then: gapless try --list (CUDA graphs)"
    if call > _MAX_NS:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if call > _WANTED_NS else ok(evidence)
