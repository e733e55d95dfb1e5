"""Others on the GPUs."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, examine_gpus, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_MIN_USED: Final = 2 << 30  # bytes: more than the driver keeps for itself
_MIN_BUSY_PERCENT: Final = 5
_REMEDY: Final = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look for processes that use the GPUs already: their kernels and ours take turns."""
    return examine_gpus(subject.survey, _examine_gpu)


def _examine_gpu(gpu: GpuReading) -> CheckAnswer:
    if gpu.processes is None and gpu.memory_used is None:
        return unknown("NVML does not show who uses it")
    used, n_processes = gpu.memory_used or 0, len(gpu.processes or ())
    words = f"{size(used)} of {size(gpu.memory_total or 0)} in use"
    if gpu.busy_percent is not None:
        words += f", busy {gpu.busy_percent} % of the time"
    if gpu.processes:
        numbers = ", ".join(map(str, gpu.processes))
        plural = "es" * (n_processes > 1)
        return warn(f"{n_processes} other process{plural} on it ({numbers}), {words}", _REMEDY)
    if used > _MIN_USED or (gpu.busy_percent or 0) > _MIN_BUSY_PERCENT:
        return warn(f"processes that are not seen from here use it: {words}", _REMEDY)
    return ok(words)
