"""Whether GPUs are there, and are seen."""

from collections import Counter
from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject

_PCI: Final = "sys/bus/pci/devices"
_NVIDIA: Final = "0x10de"
_DISPLAYS: Final = ("0x0300", "0x0302")  # PCI classes: VGA, 3D controller


def examine(subject: CheckSubject) -> CheckAnswer:
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
