"""Memory bandwidth of the GPUs."""

from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.measured.comparison import examine_measured, explain_absence
from gapless.doctor.measured.peaks import find_peaks
from gapless.doctor.subject import CheckSubject
from gapless.model.machine import Constants
from gapless.report.text.numbers import rate

_WANTED_SHARE: Final = 0.7  # of the data sheet's: 0.85 to 0.93 is usual
_MIN_SHARE: Final = 0.4


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare passes over buffers with the memory bandwidth of the card's data sheet."""
    return examine_measured(subject, _judge)


def _judge(gpu: GpuReading, constants: Constants) -> CheckAnswer:
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
    if share < _MIN_SHARE:
        return bad(evidence, remedy)
    return warn(evidence, remedy) if share < _WANTED_SHARE else ok(evidence)
