"""Power limits of the GPUs."""

from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject

_MIN_SHARE: Final = 0.98  # of the default


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare the power limit with the card's own."""
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
    limit, default = gpu.power_limit_w, gpu.default_power_limit_w
    if limit is None or default is None:
        return unknown("NVML does not show its power limit")
    evidence = f"{limit:.0f} W, by default {default:.0f} W"
    if limit < _MIN_SHARE * default:
        return warn(
            f"{evidence}: large products run slower",
            f"sudo nvidia-smi -i {NUMBERS} -pl {default:.0f}",
        )
    return ok(evidence)
