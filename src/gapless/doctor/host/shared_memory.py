"""The memory in which loader workers hand over batches."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_DOCKER_DEFAULT: Final = 64 << 20  # bytes
_MIN_FREE: Final = 1 << 30  # bytes: some batches of pictures of each of a few workers
_REMEDY: Final = (
    "docker run --ipc=host (or --shm-size=16g); else: sudo mount -o remount,size=16G /dev/shm"
)


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the size of ``/dev/shm``: each worker puts its batches there.

    Docker gives 64 MiB, which one batch of pictures may fill: the worker dies of a bus error.
    """
    space = subject.shared_memory
    if space is None:
        return unknown("there is no /dev/shm")
    evidence = f"it has {size(space.total)}, of which {size(space.free)} is free"
    if space.total <= _DOCKER_DEFAULT:
        return bad(f"{evidence}: workers with larger batches die (bus error)", _REMEDY)
    if space.free < _MIN_FREE:
        return warn(f"{evidence}: some batches of pictures of a few workers fill it", _REMEDY)
    return ok(evidence)
