"""Products of matrices on the GPUs."""

from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.measured.comparison import examine_measured, explain_absence
from gapless.doctor.measured.peaks import find_peaks
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants

# Of the data sheet's peak, which is at the boost clock: products of random numbers reach two thirds
# on a card that is well, and less where its power does not suffice for that clock (L4, T4).
_WANTED_SHARE: Final = 0.4
_MIN_SHARE: Final = 0.2
_POWER: Final = 0x4  # NVML's bit: the power limit holds the clock down
_HELD_SHARE: Final = 0.5  # of the samples under load
_HALF: Final = ("bf16", "fp16")
_T: Final = 1e12


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare products of large matrices in half precision with the card's data sheet."""
    return examine_measured(subject, _judge)


def _judge(gpu: GpuReading, constants: Constants) -> CheckAnswer:
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
    if share < _MIN_SHARE:
        return bad(evidence, remedy)
    if share < _WANTED_SHARE:
        is_held = gpu.load is not None and gpu.load.throttled.get(_POWER, 0.0) >= _HELD_SHARE
        return ok(f"{evidence}, which its power limits") if is_held else warn(evidence, remedy)
    return ok(evidence)
