"""Persistence mode."""

from gapless.doctor.answers import CheckAnswer, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look whether the driver stays loaded between programs.

    Without it each first CUDA call waits, seconds for each GPU, for the driver to start the card.
    """
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
    if gpu.persistent is None:
        return unknown("NVML does not show persistence mode")
    if gpu.persistent:
        return ok("on")
    return warn("off: the first CUDA call of each program starts the card", "sudo nvidia-smi -pm 1")
