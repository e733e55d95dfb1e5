"""Memory that was written out to disk."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, ok, unknown, warn
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_MIN_USED: Final = 1 << 30  # bytes
_MIN_USED_SHARE: Final = 0.05  # of the memory


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at swap: batches that are read back from disk come late, at no fault of the loader."""
    counts = subject.files.fields("proc/meminfo")
    total, free, memory = (counts.get(name) for name in ("SwapTotal", "SwapFree", "MemTotal"))
    if total is None or free is None or memory is None:
        return unknown("/proc/meminfo cannot be read")
    if not total:
        return ok("there is none")
    used = total - free
    evidence = f"{size(used)} of {size(total)} in use"
    if used > max(_MIN_USED, _MIN_USED_SHARE * memory):
        return warn(evidence, "free memory, then: sudo swapoff -a && sudo swapon -a")
    return ok(evidence)
