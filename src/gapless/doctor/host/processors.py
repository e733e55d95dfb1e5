"""The processors: how many a training has, how fast they are, who else uses them."""

from collections import Counter
from typing import Final

from gapless.catalogue.declare.cpu_lists import format_cpu_list
from gapless.doctor.answers import CheckAnswer, bad, ok, unknown, warn
from gapless.doctor.host_files import HostFiles, parse_numbers
from gapless.doctor.subject import CheckSubject

_MAX_HELD_SHARE: Final = 0.05  # of periods in which the quota stopped the group
_MIN_PER_GPU: Final = 4  # processors: the training thread, and workers beside it
_ASK_FOR_MORE: Final = "ask for more: docker run --cpuset-cpus=0-15, srun --cpus-per-task=16"
_ROUNDING: Final = 0.01  # of a processor
_NODES: Final = "sys/devices/system/node"
_BALANCING: Final = "proc/sys/kernel/numa_balancing"
_CPUS: Final = "sys/devices/system/cpu"
_SELF_CLOCKED: Final = ("intel_pstate", "amd-pstate-epp")  # "powersave" is their usual, and quick
_SLOW_GOVERNORS: Final = ("powersave", "conservative")
_SAVING_PREFERENCES: Final = ("power", "balance_power")
_FREQUENCY_REMEDY: Final = "sudo cpupower frequency-set -g performance"
_MAX_BUSY_SHARE: Final = 0.25  # of the processors
_MAX_BUSY_NAMES: Final = 3


def examine_processors(subject: CheckSubject) -> CheckAnswer:
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
        held_share = _held_share(subject.files)
        held_words = (
            "" if held_share is None else f"; it was held back in {held_share:.0%} of its periods"
        )
        evidence = f"a quota of {quota:.3g} processors, while programs see {n_allowed}{held_words}"
        threads = max(1, int(quota))
        remedy = (
            f"export OMP_NUM_THREADS={threads} (and num_workers below {threads + 1}); or raise \
the quota: docker run --cpus"
        )
        is_held = held_share is not None and held_share > _MAX_HELD_SHARE
        return bad(evidence, remedy) if is_held else warn(evidence, remedy)
    n_gpus = len(subject.survey.gpus)
    if n_gpus and n_allowed < _MIN_PER_GPU * n_gpus:
        evidence = f"{words} for {n_gpus} GPU{'s' * (n_gpus > 1)}: few to feed them"
        return warn(evidence, _ASK_FOR_MORE)
    if n_allowed == 1:
        evidence = f"{words}: loader workers and the training thread share it"
        return warn(evidence, _ASK_FOR_MORE)
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


def examine_numa(subject: CheckSubject) -> CheckAnswer:
    """Look at NUMA nodes, and whether the kernel moves pages between them.

    Automatic balancing unmaps pages to see who uses them. Trainings whose buffers are pinned and
    shared pay for that and gain nothing; NVIDIA advises to turn it off on GPU servers.
    """
    nodes = read_nodes(subject.files)
    if not nodes:
        return unknown("the kernel shows no NUMA nodes")
    if len(nodes) == 1:
        return ok("one node")
    words = f"{len(nodes)} nodes"
    if subject.allowed_cpus is not None:
        used_nodes = [number for number, cpus in nodes.items() if cpus & subject.allowed_cpus]
        words += f", of which this process may use {len(used_nodes)}"
    if subject.files.number(_BALANCING) == 1 and subject.survey.gpus:
        evidence = f"{words}; the kernel moves pages between them (numa_balancing)"
        return warn(evidence, "sudo sysctl kernel.numa_balancing=0")
    return ok(words)


def read_nodes(files: HostFiles) -> dict[int, frozenset[int]]:
    """Return the processors of each node that has memory."""
    names = [name for name in files.names(_NODES) if name[4:].isdecimal() and name[:4] == "node"]
    return {int(name[4:]): parse_numbers(files.text(f"{_NODES}/{name}/cpulist")) for name in names}


def examine_frequency(subject: CheckSubject) -> CheckAnswer:
    """Look at the frequency governor, and whether boost is off.

    A governor that saves power clocks up only after a core has been busy for a while; the thread
    that launches kernels sleeps and wakes all the time, and runs slowly.
    """
    files = subject.files
    folders = [f"{_CPUS}/{name}/cpufreq" for name in files.names(_CPUS) if name[3:].isdecimal()]
    governors = Counter(files.text(f"{folder}/scaling_governor") for folder in folders)
    del governors[None]
    if not governors:
        return unknown("the kernel shows no frequency control (a virtual machine, as a rule)")
    words = ", ".join(f"{name} ({count})" for name, count in governors.most_common())
    driver = files.text(f"{folders[0]}/scaling_driver") or "unknown"
    preference = files.text(f"{folders[0]}/energy_performance_preference")
    evidence = f"governor {words}, driver {driver}"
    is_slow = any(name in _SLOW_GOVERNORS for name in governors) and driver not in _SELF_CLOCKED
    if is_slow or preference in _SAVING_PREFERENCES:
        suffix = f", preference {preference}" if preference else ""
        return warn(f"{evidence}{suffix}: it clocks up late", _FREQUENCY_REMEDY)
    if files.number(f"{_CPUS}/intel_pstate/no_turbo") == 1:
        command = f"echo 0 | sudo tee /{_CPUS}/intel_pstate/no_turbo"
        return warn(f"{evidence}; turbo is off", command)
    if files.number(f"{_CPUS}/cpufreq/boost") == 0:
        return warn(f"{evidence}; boost is off", f"echo 1 | sudo tee /{_CPUS}/cpufreq/boost")
    return ok(evidence)


def examine_smt(subject: CheckSubject) -> CheckAnswer:
    """Tell how many cores the processors are: two threads of a core share what computes."""
    if subject.allowed_cpus is None:
        return unknown("this system does not say which processors a process may use")
    files = subject.files
    siblings = {
        files.text(f"{_CPUS}/cpu{number}/topology/thread_siblings_list")
        for number in subject.allowed_cpus
    }
    if None in siblings:
        return unknown("the kernel does not show which processors are threads of one core")
    n_cpus = len(subject.allowed_cpus)
    if len(siblings) == n_cpus:
        return ok(f"{n_cpus} processors, each a core of its own")
    return ok(f"{n_cpus} processors are threads of {len(siblings)} cores")


def examine_neighbours(subject: CheckSubject) -> CheckAnswer:
    """Look at what others run: services, other trainings, a build.

    What they take, loader workers and the training thread lack, and no measurement is steady.
    """
    words = (subject.files.text("proc/loadavg") or "").split()
    usable = count_usable(subject)
    if not words or usable is None:
        return unknown("/proc/loadavg cannot be read")
    processors = f"{usable} processor{'s' * (usable != 1)}"
    evidence = f"a load of {words[0]} on {processors} over the last minute"
    use = subject.use
    if use is None:
        return unknown(f"{evidence}; processes of others cannot be seen")
    n_taken = sum(process.processors for process in use.busy)
    busiest = sorted(use.busy, key=lambda process: -process.processors)[:_MAX_BUSY_NAMES]
    idle = len(subject.allowed_cpus or ()) - use.hidden - n_taken  # a quota may be of idle ones
    if min(use.hidden, usable - idle) > _MAX_BUSY_SHARE * usable:
        return warn(
            f"{evidence}; what cannot be seen from here keeps {use.hidden:.1f} processors busy, "
            f"what can be seen {n_taken:.1f}",
            "top, on the host of this container, or as root",
        )
    names = ", ".join(
        f"{process.name} ({process.number}) {process.processors:.0%}" for process in busiest
    )
    if n_taken > _MAX_BUSY_SHARE * usable:
        numbers = ",".join(str(process.number) for process in busiest)
        return warn(f"{evidence}; busy now: {names}", f"ps -o pid,user,etime,args -p {numbers}")
    return ok(f"{evidence}; others keep {n_taken:.1f} processors busy now")
