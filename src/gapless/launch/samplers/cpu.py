"""Processors: the machine, the run's processes, all others.

In per cent of one processor: ``cpu.total``, ``cpu.tree`` (the run), ``cpu.launcher`` (this process,
which samples), ``cpu.foreign`` (the rest), ``cpu.wait`` (idle, for a disk), ``cpu.stolen``.
Where the run is bound to some of the processors: ``cpu.contending``, what others took of these, and
``cpu.allowed``, 100 for each of them. What others do on all other ones is nothing to it.
``cpu.throttled``: the per cent of time in which a control group's limit held its processes back.
Of each process: ``process.PID.cpu``, ``.threads``, ``.rss`` in bytes, and ``.run_queue``: the per
cent of time in which its first thread was ready and waited for a processor. Of that thread, too:
``.faults``, pages a second that it touched for the first time since they were its process's, and
``.kernel``, the per cent of time in which it was in the kernel, for these or for what it asked for.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.launch.process_tree import Status, Tree, parse
from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, keep_observed

_STAT: Final = Path("/proc/stat")
_GROUP: Final = Path("/sys/fs/cgroup/cpu.stat")
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_PER_CENT: Final = 100 / 10**9  # of a processor, from ns a second
_MAX_PROCESSES: Final = 40  # the busiest; a line each for thousands would fill the disk
_MAX_FIRST_THREADS: Final = 10  # likewise
# At first threads: windows of a short run are close to each other.
_DENSE_LOOKS: Final = 120
_TREE_TOTAL: Final = "whole"
_PROCESS_INTERVAL: Final = 4  # looks at the machine for one at each process
# of a processor, the part of the busiest process's time: less is a mere wrapper's
_WRAPPER_RATIO: Final = 10
_BUSY: Final = (0, 1, 2, 5, 6)  # user, nice, system, hard and soft interrupts


def open_sampler(tree: Tree) -> Sampler:
    """Return the sampler of processors."""
    if not _STAT.exists():
        raise AbsentError("there is no /proc/stat")
    growth, processes, contention = Growth(), Growth(), Growth()
    looks, allowed = 0, frozenset[int]()

    def sample(now: int) -> Values:
        nonlocal looks, allowed
        tree.look()
        statuses = tree.statuses()
        values = _read_machine(growth, now) | _read_run(processes, now, statuses)
        if "cpu.total" in values:
            ours = values["cpu.tree"] + values["cpu.launcher"]
            values["cpu.foreign"] = max(0.0, values["cpu.total"] - ours)
        if looks % _PROCESS_INTERVAL == 0 or not allowed:
            allowed = _find_allowed(statuses)
        with suppress(OSError, ValueError, IndexError):
            values |= _read_contention(contention, now, allowed, values)
        if looks % _PROCESS_INTERVAL == 0:
            values |= _read_processes(growth, now, statuses)
        if looks % _PROCESS_INTERVAL == 0 or looks < _DENSE_LOOKS:
            values |= _read_first_threads(growth, now, statuses)
        looks += 1
        return keep_observed(values)

    return sample


def _read_machine(growth: Growth, now: int) -> Values:
    with _STAT.open("rb") as file:
        words = [int(word) for word in file.readline().split()[1:]]
    user, nice, system, _, wait, hard, soft, stolen = words[:8]
    counters = {
        "cpu.total": (user + nice + system + hard + soft) * _TICK_NS,
        "cpu.wait": wait * _TICK_NS,
        "cpu.stolen": stolen * _TICK_NS,
        "cpu.launcher": _read_own_cpu_ns(),
    }
    with suppress(OSError, ValueError):
        counters["cpu.throttled"] = _throttled_ns()
    return _per_cent(growth, now, counters)


def _read_own_cpu_ns() -> int:
    times = os.times()
    return int((times.user + times.system) * 10**9)


def _throttled_ns() -> int:
    words = _GROUP.read_text(encoding="ascii").split()
    return 1000 * int(words[words.index("throttled_usec") + 1])


def _per_cent(growth: Growth, now: int, counters: dict[str, int]) -> Values:
    rates = {name: growth.rate(name, now, value) for name, value in counters.items()}
    return {name: rate * _PER_CENT for name, rate in rates.items() if rate is not None}


def _read_run(growth: Growth, now: int, statuses: dict[int, Status]) -> Values:
    """Return what the processes of the run take.

    What one took that ended counts where its parent has asked how it ended: workers that live for
    less than a look, one epoch say, are seen by that alone. Where the parent is gone it is lost.
    """
    names = {f"{number} {status.started}": status.cpu_ns for number, status in statuses.items()}
    rates = [growth.rate(name, now, cpu_ns) for name, cpu_ns in names.items()]
    living = sum(rate for rate in rates if rate is not None)
    total_ns = sum(status.cpu_ns + status.children_cpu_ns for status in statuses.values())
    run_rate = max(living, growth.rate(_TREE_TOTAL, now, total_ns) or 0.0)
    growth.keep_only({_TREE_TOTAL, *names})
    return {"cpu.tree": run_rate * _PER_CENT}


def _find_allowed(statuses: dict[int, Status]) -> frozenset[int]:
    """Return the processors that the run is bound to: those of the processes that work in it."""
    max_cpu_ns = max((status.cpu_ns for status in statuses.values()), default=0)
    processors = set[int]()
    for number, status in statuses.items():
        if status.cpu_ns * _WRAPPER_RATIO >= max_cpu_ns:
            with suppress(OSError):
                processors |= os.sched_getaffinity(number)
    return frozenset(processors)


def _read_contention(growth: Growth, now: int, allowed: frozenset[int], values: Values) -> Values:
    """Return what others took of the processors that the run is bound to, if they are not all."""
    if not allowed or len(allowed) >= (os.cpu_count() or 1):
        return {}
    rows = (row.split() for row in _STAT.read_text(encoding="ascii").splitlines())
    allowed_names = {f"cpu{number}" for number in allowed}
    busy = [
        sum(int(row[1 + column]) for column in _BUSY)
        for row in rows
        if row and row[0] in allowed_names
    ]
    if len(busy) < len(
        allowed_names
    ):  # a container whose /proc/stat counts its own processors from 0
        return {}
    name = ",".join(sorted(allowed_names))
    rate = growth.rate(name, now, sum(busy) * _TICK_NS)
    growth.keep_only({name})
    if rate is None or "cpu.tree" not in values:
        return {}
    ours = values["cpu.tree"]
    if os.sched_getaffinity(0) <= allowed:
        ours += values.get("cpu.launcher", 0.0)
    return {
        "cpu.contending": max(0.0, rate * _PER_CENT - ours),
        "cpu.allowed": 100.0 * len(allowed),
    }


def _read_processes(growth: Growth, now: int, statuses: dict[int, Status]) -> Values:
    busiest = sorted(statuses, key=lambda number: -statuses[number].cpu_ns)[:_MAX_PROCESSES]
    values: dict[str, float | None] = {}
    for number in busiest:
        status, name = statuses[number], f"process.{number}"
        spent = growth.rate(f"{name}.cpu", now, status.cpu_ns)
        values[f"{name}.cpu"] = None if spent is None else spent * _PER_CENT
        values[f"{name}.threads"] = status.threads
        values[f"{name}.rss"] = status.resident
        with suppress(OSError, ValueError, IndexError):
            waited_ns = int(Path(f"/proc/{number}/schedstat").read_bytes().split()[1])
            queue = growth.rate(f"{name}.run_queue", now, waited_ns)
            values[f"{name}.run_queue"] = None if queue is None else queue * _PER_CENT
    return keep_observed(values)


def _read_first_threads(growth: Growth, now: int, statuses: dict[int, Status]) -> Values:
    busiest = sorted(statuses, key=lambda number: -statuses[number].cpu_ns)[:_MAX_FIRST_THREADS]
    values: dict[str, float | None] = {}
    for number in busiest:
        name = f"process.{number}"
        with suppress(OSError, ValueError, IndexError):
            thread = parse(Path(f"/proc/{number}/task/{number}/stat").read_bytes())
            values[f"{name}.rss"] = statuses[number].resident
            values[f"{name}.faults"] = growth.rate(f"{name}.faults", now, thread.minor_faults)
            in_kernel = growth.rate(f"{name}.kernel", now, thread.kernel_ns)
            values[f"{name}.kernel"] = None if in_kernel is None else in_kernel * _PER_CENT
    return keep_observed(values)
