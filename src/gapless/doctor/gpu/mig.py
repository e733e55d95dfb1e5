"""GPUs that are divided."""

from gapless.doctor.answers import NUMBERS, CheckAnswer, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look whether cards are divided (MIG): a process gets one slice, and NCCL joins no slices."""
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
    if gpu.mig is None:
        return ok("it cannot be divided") if gpu.name else unknown("it is not seen")
    if not gpu.mig:
        return ok("not divided")
    evidence = "MIG is on: a training gets a slice of the card, never all of it"
    return warn(evidence, f"if it is to be whole: sudo nvidia-smi -i {NUMBERS} -mig 0")
