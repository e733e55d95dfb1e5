"""How hot the GPUs are."""

from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject

_MIN_MARGIN_C: Final = 3
_WANTED_MARGIN_C: Final = 10


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare temperatures with the one at which a card slows itself down."""
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
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
