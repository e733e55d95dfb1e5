"""Memory of the machine, and of the control group."""

from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_MIN_FREE: Final = 1 << 30  # bytes
_MIN_FREE_SHARE: Final = 0.1  # of what there is
_NO_LIMIT: Final = 1 << 60  # bytes: how version 1 writes that there is none
_REMEDY: Final = "ps -eo pid,user,rss,comm --sort=-rss | head"


def examine(subject: CheckSubject) -> CheckAnswer:
    """Look at what memory is free, on the machine and within the control group's limit.

    Loader workers multiply what a dataset holds, and the page cache, which makes the second epoch
    fast, gets what is left. Beyond the group's limit the kernel kills a process, often a worker.
    """
    counts = subject.files.fields("proc/meminfo")
    total, free = counts.get("MemTotal"), counts.get("MemAvailable")
    if total is None or free is None:
        return unknown("/proc/meminfo cannot be read")
    words = f"{size(free)} of {size(total)} available"
    group = read_group(subject.files)
    if group is not None and group[0] < total:
        total, free = group[0], min(free, group[0] - group[1])
        words += f"; the control group may use {size(total)}, of which {size(max(free, 0))} is left"
    killed = _count_killed(subject.files)
    if killed:
        words += f"; the kernel killed {killed} process{'es' * (killed > 1)} of the group"
        evidence = f"{words} for want of memory"
        return bad(evidence, "raise the limit: docker run --memory, srun --mem")
    if free < _MIN_FREE:
        return bad(words, _REMEDY)
    return warn(words, _REMEDY) if free < _MIN_FREE_SHARE * total else ok(words)


def read_group(files: HostFiles) -> tuple[int, int] | None:
    """Return the lowest limit of the control groups, and what it holds that cannot be dropped."""
    groups: list[tuple[int, int]] = []
    for name in files.group_files("memory", "memory.max", "memory.limit_in_bytes"):
        limit = files.number(name)
        if limit is None or limit >= _NO_LIMIT:
            continue
        folder, _, file = name.rpartition("/")
        is_new = file == "memory.max"
        used = files.number(f"{folder}/{'memory.current' if is_new else 'memory.usage_in_bytes'}")
        cache = files.fields(f"{folder}/memory.stat").get(
            "inactive_file" if is_new else "total_inactive_file", 0
        )
        groups.append((limit, max(0, (used or 0) - cache)))
    return min(groups, default=None)


def _count_killed(files: HostFiles) -> int:
    names = files.group_files("memory", "memory.events", "memory.oom_control")
    return max((files.fields(name).get("oom_kill", 0) for name in names), default=0)
