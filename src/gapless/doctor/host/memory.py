"""The memory: what is free of it, and how it is given out."""

import re
from typing import Final

from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject
from gapless.report.text.numbers import size

_MIN_FREE: Final = 1 << 30  # bytes
_MIN_FREE_SHARE: Final = 0.1  # of what there is
_NO_LIMIT: Final = 1 << 60  # bytes: how version 1 writes that there is none
_MEMORY_REMEDY: Final = "ps -eo pid,user,rss,comm --sort=-rss | head"
_MIN_SWAPPED: Final = 1 << 30  # bytes
_MIN_SWAPPED_SHARE: Final = 0.05  # of the memory
_HUGE_PAGES: Final = "sys/kernel/mm/transparent_hugepage"
_CHOICE: Final = re.compile(r"\[(\w[\w+]*)\]")
_DOCKER_DEFAULT: Final = 64 << 20  # bytes
_MIN_SHARED_FREE: Final = 1 << 30  # bytes: some batches of pictures of each of a few workers
_FEW_BATCHES: Final = "some batches of pictures of a few workers fill it"
_SHARED_REMEDY: Final = (
    "docker run --ipc=host (or --shm-size=16g); else: sudo mount -o remount,size=16G /dev/shm"
)


def examine_memory(subject: CheckSubject) -> CheckAnswer:
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
        return bad(words, _MEMORY_REMEDY)
    return warn(words, _MEMORY_REMEDY) if free < _MIN_FREE_SHARE * total else ok(words)


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


def examine_swap(subject: CheckSubject) -> CheckAnswer:
    """Look at swap: batches that are read back from disk come late, at no fault of the loader."""
    counts = subject.files.fields("proc/meminfo")
    total, free, memory = (counts.get(name) for name in ("SwapTotal", "SwapFree", "MemTotal"))
    if total is None or free is None or memory is None:
        return unknown("/proc/meminfo cannot be read")
    if not total:
        return ok("there is none")
    used = total - free
    evidence = f"{size(used)} of {size(total)} in use"
    if used > max(_MIN_SWAPPED, _MIN_SWAPPED_SHARE * memory):
        return warn(evidence, "free memory, then: sudo swapoff -a && sudo swapon -a")
    return ok(evidence)


def examine_huge_pages(subject: CheckSubject) -> CheckAnswer:
    """Look at transparent huge pages, and whether the kernel stops programs to make them.

    Large tensors in pages of 4 KiB take a fault for each, which is most of what a fresh batch
    costs. With defrag "always" each such fault may wait until memory was moved together.
    """
    pages, defrag = _choice(subject, "enabled"), _choice(subject, "defrag")
    if pages is None:
        return unknown("the kernel does not show how it uses huge pages")
    evidence = f"{pages}, defrag {defrag}"
    if pages == "never":
        return warn(
            f"{evidence}: large tensors are made of pages of 4 KiB",
            f"echo madvise | sudo tee /{_HUGE_PAGES}/enabled; export THP_MEM_ALLOC_ENABLE=1",
        )
    if defrag == "always" and pages == "always":
        return warn(
            f"{evidence}: a page fault may wait for memory to be moved",
            f"echo madvise | sudo tee /{_HUGE_PAGES}/defrag",
        )
    return ok(evidence)


def _choice(subject: CheckSubject, name: str) -> str | None:
    """Return the word in brackets: "always [madvise] never"."""
    match = _CHOICE.search(subject.files.text(f"{_HUGE_PAGES}/{name}") or "")
    return match.group(1) if match else None


def examine_shared_memory(subject: CheckSubject) -> CheckAnswer:
    """Look at the size of ``/dev/shm``: each worker puts its batches there.

    Docker gives 64 MiB, which one batch of pictures may fill: the worker dies of a bus error. What
    lies there counts as memory of the control group, whose limit may be lower than its size.
    """
    space = subject.shared_memory
    if space is None:
        return unknown("there is no /dev/shm")
    evidence = f"it has {size(space.total)}, of which {size(space.free)} is free"
    if space.total <= _DOCKER_DEFAULT:
        return bad(f"{evidence}: workers with larger batches die (bus error)", _SHARED_REMEDY)
    if space.free < _MIN_SHARED_FREE:
        return warn(f"{evidence}: {_FEW_BATCHES}", _SHARED_REMEDY)
    group = read_group(subject.files)
    if group is not None and group[0] < space.total:
        free_bytes = max(0, group[0] - group[1])
        evidence += f"; the control group's memory, of which it takes, has {size(free_bytes)} left"
        if free_bytes < _MIN_SHARED_FREE:
            return warn(f"{evidence}: {_FEW_BATCHES}", "raise the limit: docker run --memory")
    return ok(evidence)


def examine_locked_memory(subject: CheckSubject) -> CheckAnswer:
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
