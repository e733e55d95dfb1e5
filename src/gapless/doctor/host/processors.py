"""How many processors a training really has."""

from typing import Final

from gapless.catalogue.declare.cpu_lists import format_cpu_list
from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host_files import HostFiles
from gapless.doctor.subject import CheckSubject

_MAX_HELD_SHARE: Final = 0.05  # of periods in which the quota stopped the group
_MIN_PER_GPU: Final = 4  # processors: the training thread, and workers beside it
_MORE: Final = "ask for more: docker run --cpuset-cpus=0-15, srun --cpus-per-task=16"
_ROUNDING: Final = 0.01  # of a processor


def examine(subject: CheckSubject) -> CheckAnswer:
    """Compare the control group's quota and the cpuset with what programs see.

    Programs size their pools by ``os.cpu_count()``. Where a quota is lower, they start too many
    threads, and the kernel stops all of them for the rest of each period of 100 ms.
    """
    if subject.allowed_cpus is None or subject.n_cpus is None:
        return unknown("this system does not say which processors a process may use")
    n_allowed = len(subject.allowed_cpus)
    quota = read_quota(subject.files)
    words = f"{n_allowed} of {subject.n_cpus} processors ({format_cpu_list(subject.allowed_cpus)})"
    if quota is not None and quota < n_allowed - _ROUNDING:
        held = _held_share(subject.files)
        held_words = "" if held is None else f"; it was held back in {held:.0%} of its periods"
        evidence = f"a quota of {quota:.3g} processors, while programs see {n_allowed}{held_words}"
        threads = max(1, int(quota))
        remedy = (
            f"export OMP_NUM_THREADS={threads} (and num_workers below {threads + 1}); or raise \
the quota: docker run --cpus"
        )
        is_held = held is not None and held > _MAX_HELD_SHARE
        return bad(evidence, remedy) if is_held else warn(evidence, remedy)
    n_gpus = len(subject.survey.gpus)
    if n_gpus and n_allowed < _MIN_PER_GPU * n_gpus:
        evidence = f"{words} for {n_gpus} GPU{'s' * (n_gpus > 1)}: few to feed them"
        return warn(evidence, _MORE)
    if n_allowed == 1:
        evidence = f"{words}: loader workers and the training thread share it"
        return warn(evidence, _MORE)
    if quota is not None:
        return ok(f"{words}, a quota of {quota:.3g}")
    is_seen = bool(subject.files.names("sys/fs/cgroup"))
    return ok(f"{words}, {'no quota' if is_seen else 'a quota cannot be seen'}")


def read_quota(files: HostFiles) -> float | None:
    """Return the processors that the control group may use, the least of it and those above."""
    quotas: list[float] = []
    for name in files.group_files("cpu", "cpu.max", "cpu.cfs_quota_us"):
        text = files.text(name)
        if text is None:
            continue
        if name.endswith("quota_us"):
            text = f"{text} {files.text(name.replace('quota', 'period')) or ''}"
        quota, _, period = text.partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def count_usable(subject: CheckSubject) -> int | None:
    """Return how many threads can run at a time: the affinity, and the quota."""
    if subject.allowed_cpus is None:
        return None
    quota = read_quota(subject.files)
    allowed = len(subject.allowed_cpus)
    return allowed if quota is None else min(allowed, max(1, round(quota)))


def _held_share(files: HostFiles) -> float | None:
    """Return the share of periods in which the quota stopped a group, the most of all."""
    shares: list[float] = []
    for name in files.group_files("cpu", "cpu.stat", "cpu.stat"):
        counts = files.fields(name)
        if counts.get("nr_periods"):
            shares.append(counts.get("nr_throttled", 0) / counts["nr_periods"])
    return max(shares, default=None)
