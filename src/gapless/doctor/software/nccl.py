"""NCCL."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, find_cuda_build, ok, warn
from gapless.doctor.subject import CheckSubject

_SWITCHED_OFF: Final = {
    "NCCL_P2P_DISABLE": "no copies from GPU to GPU",
    "NCCL_SHM_DISABLE": "no shared memory between processes",
    "NCCL_IB_DISABLE": "no InfiniBand",
    "NCCL_NVLS_ENABLE": "no NVLink multicast",
}


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at NCCL's version, and at ways of its that the environment switches off."""
    facts, n_gpus = find_cuda_build(subject.interpreter), len(subject.survey.gpus)
    if isinstance(facts, CheckAnswer):
        return facts
    off_value = {"NCCL_NVLS_ENABLE": "0"}
    names = [
        name for name in _SWITCHED_OFF if subject.environment.get(name) == off_value.get(name, "1")
    ]
    version = facts.nccl or "of an unknown version"
    if names and n_gpus > 1:
        words = ", ".join(f"{name} ({_SWITCHED_OFF[name]})" for name in names)
        return warn(f"{version}; the environment sets {words}", f"unset {' '.join(names)}")
    return ok(version if n_gpus > 1 else f"{version}; one GPU does not need it")
