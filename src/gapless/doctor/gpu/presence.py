"""Whether the GPUs are there, whole, started and free."""

from collections import Counter
from typing import Final

from gapless.doctor.answers import NUMBERS, CheckAnswer, bad, judge_each_gpu, ok, unknown, warn
from gapless.doctor.gpus import GpuReading
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_PCI: Final = "sys/bus/pci/devices"
_NVIDIA: Final = "0x10de"
_DISPLAYS: Final = ("0x0300", "0x0302")  # PCI classes: VGA, 3D controller
_MIN_USED: Final = 2 << 30  # bytes: more than the driver keeps for itself
_MIN_BUSY_PERCENT: Final = 5
_NAME_USERS: Final = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"


def examine_presence(subject: CheckSubject) -> CheckAnswer:
    """Look which GPUs the driver shows to trainings here."""
    survey = subject.survey
    n_on_bus = _count_on_bus(subject.files)
    visible = subject.environment.get("CUDA_VISIBLE_DEVICES")
    if not survey.gpus:
        if n_on_bus and visible is None:
            evidence = f"{n_on_bus} NVIDIA GPUs are on the bus, and {survey.why}"
            return bad(evidence, "nvidia-smi; in a container: docker run --gpus all")
        if n_on_bus:
            evidence = f"CUDA_VISIBLE_DEVICES={visible!r} hides all {n_on_bus} GPUs"
            return warn(evidence, "unset CUDA_VISIBLE_DEVICES")
        return unknown(survey.why or "there is no GPU")
    names = Counter(gpu.name or "a GPU without a name" for gpu in survey.gpus)
    words = ", ".join(f"{count} × {name}" for name, count in names.items())
    evidence = f"{words}, driver {survey.driver}"
    if visible is not None:
        evidence += f" (CUDA_VISIBLE_DEVICES={visible})"
    return ok(evidence)


def _count_on_bus(files: HostFiles) -> int:
    """Return how many GPUs of NVIDIA's the PCI bus shows."""
    return sum(
        files.text(f"{_PCI}/{name}/vendor") == _NVIDIA
        and (files.text(f"{_PCI}/{name}/class") or "").startswith(_DISPLAYS)
        for name in files.names(_PCI)
    )


@judge_each_gpu
def examine_sharing(gpu: GpuReading) -> CheckAnswer:
    """Look for processes that use the GPUs already: their kernels and ours take turns."""
    if gpu.processes is None and gpu.memory_used is None:
        return unknown("NVML does not show who uses it")
    used, n_processes = gpu.memory_used or 0, len(gpu.processes or ())
    words = f"{size(used)} of {size(gpu.memory_total or 0)} in use"
    if gpu.busy_percent is not None:
        words += f", busy {gpu.busy_percent} % of the time"
    if gpu.processes:
        numbers = ", ".join(map(str, gpu.processes))
        plural = "es" * (n_processes > 1)
        return warn(f"{n_processes} other process{plural} on it ({numbers}), {words}", _NAME_USERS)
    if used > _MIN_USED or (gpu.busy_percent or 0) > _MIN_BUSY_PERCENT:
        return warn(f"processes that are not seen from here use it: {words}", _NAME_USERS)
    return ok(words)


@judge_each_gpu
def examine_persistence(gpu: GpuReading) -> CheckAnswer:
    """Look whether the driver stays loaded between programs.

    Without it each first CUDA call waits, seconds for each GPU, for the driver to start the card.
    """
    if gpu.persistent is None:
        return unknown("NVML does not show persistence mode")
    if gpu.persistent:
        return ok("on")
    return warn("off: the first CUDA call of each program starts the card", "sudo nvidia-smi -pm 1")


@judge_each_gpu
def examine_mig(gpu: GpuReading) -> CheckAnswer:
    """Look whether cards are divided (MIG): a process gets one slice, and NCCL joins no slices."""
    if gpu.mig is None:
        return ok("it cannot be divided") if gpu.name else unknown("it is not seen")
    if not gpu.mig:
        return ok("not divided")
    evidence = "MIG is on: a training gets a slice of the card, never all of it"
    return warn(evidence, f"if it is to be whole: sudo nvidia-smi -i {NUMBERS} -mig 0")
