"""Memory that a process may lock."""

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at the limit of locked memory, which binds NCCL over InfiniBand.

    CUDA's pinned memory is locked by the driver, and not bound by it.
    """
    limit = subject.locked_memory
    if limit is None:
        return unknown("this system has no such limit")
    if limit.soft is None:
        return ok("no limit")
    evidence = f"at most {size(limit.soft)}"
    if subject.files.names("sys/class/infiniband"):
        return warn(
            f"{evidence}, and there is InfiniBand: NCCL cannot register its buffers",
            "ulimit -l unlimited; in a container: docker run --ulimit memlock=-1",
        )
    return ok(f"{evidence}; there is no InfiniBand, which would need more")
