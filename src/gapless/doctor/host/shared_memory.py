"""The memory in which loader workers hand over batches."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host.memory import read_group
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_DOCKER_DEFAULT: Final = 64 << 20  # bytes
_MIN_FREE: Final = 1 << 30  # bytes: some batches of pictures of each of a few workers
_FEW_BATCHES: Final = "some batches of pictures of a few workers fill it"
_REMEDY: Final = (
    "docker run --ipc=host (or --shm-size=16g); else: sudo mount -o remount,size=16G /dev/shm"
)


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the size of ``/dev/shm``: each worker puts its batches there.

    Docker gives 64 MiB, which one batch of pictures may fill: the worker dies of a bus error. What
    lies there counts as memory of the control group, whose limit may be lower than its size.
    """
    space = subject.shared_memory
    if space is None:
        return unknown("there is no /dev/shm")
    evidence = f"it has {size(space.total)}, of which {size(space.free)} is free"
    if space.total <= _DOCKER_DEFAULT:
        return bad(f"{evidence}: workers with larger batches die (bus error)", _REMEDY)
    if space.free < _MIN_FREE:
        return warn(f"{evidence}: {_FEW_BATCHES}", _REMEDY)
    group = read_group(subject.files)
    if group is not None and group[0] < space.total:
        left = max(0, group[0] - group[1])
        evidence += f"; the control group's memory, of which it takes, has {size(left)} left"
        if left < _MIN_FREE:
            return warn(f"{evidence}: {_FEW_BATCHES}", "raise the limit: docker run --memory")
    return ok(evidence)
