"""Kineto's ``cat`` strings of every generation and vendor → ``model.category``."""

from typing import Final

from gapless.model import category as c

# libkineto/include/ActivityType.h (2022 to 2026), the capitalised names of torch 1.8–1.10, and what
# the ROCm, MTIA, XPU, HPU and PrivateUse1 back ends write.
_CODES: Final = {
    "cpu_op": c.CPU_OP,
    "operator": c.CPU_OP,
    "user_annotation": c.USER_ANNOTATION,
    "python_function": c.PYTHON_FUNCTION,
    "python": c.PYTHON_FUNCTION,
    "cuda_runtime": c.RUNTIME,
    "hip_runtime": c.RUNTIME,
    "runtime": c.RUNTIME,
    "mtia_runtime": c.RUNTIME,
    "xpu_runtime": c.RUNTIME,
    "glow_runtime": c.RUNTIME,
    "privateuse1_runtime": c.RUNTIME,
    "hpu_op": c.RUNTIME,
    "cuda_driver": c.DRIVER,
    "hip_driver": c.DRIVER,
    "xpu_driver": c.DRIVER,
    "privateuse1_driver": c.DRIVER,
    "kernel": c.KERNEL,
    "concurrent_kernel": c.KERNEL,
    "mtia_ccp_events": c.KERNEL,
    "gpu_memcpy": c.MEMCPY,
    "memcpy": c.MEMCPY,
    "gpu_memset": c.MEMSET,
    "memset": c.MEMSET,
    "gpu_user_annotation": c.GPU_USER_ANNOTATION,
    "cuda_sync": c.SYNC,
    "xpu_sync": c.SYNC,
    "overhead": c.OVERHEAD,
    "gapless": c.MARKER,
}
INSTANT: Final = "cpu_instant_event"
_ANNOTATIONS: Final = ("ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "nn.Module:")


def code(cat: str) -> int:
    """Return the category of a ``cat`` string; ``OTHER`` for what gapless has no use for."""
    return _CODES.get(cat.lower(), c.OTHER_KIND)


def is_annotation(name: str) -> bool:
    """Return whether an "Operator" of torch ≤ 1.10 is a user annotation, by its name."""
    return name.startswith(_ANNOTATIONS)
