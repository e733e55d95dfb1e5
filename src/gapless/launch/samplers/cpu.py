"""Processors: the machine, the run's processes, all others.

In per cent of one processor: ``cpu.total``, ``cpu.tree`` (the run), ``cpu.launcher`` (this process,
which samples), ``cpu.foreign`` (the rest), ``cpu.wait`` (idle, for a disk), ``cpu.stolen``.
Where the run is bound to some of the processors: ``cpu.contending``, what others took of these, and
``cpu.allowed``, 100 for each of them. What others do on all other ones is nothing to it.
``cpu.throttled``: the per cent of time in which a control group's limit held its processes back.
Of each process: ``process.PID.cpu``, ``.threads``, ``.rss`` in bytes, and ``.run_queue``: the per
cent of time in which its first thread was ready and waited for a processor.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from gapless.launch.samplers import AbsentError, Growth, Sampler, Values, present
from gapless.launch.tree import Status, Tree

_STAT: Final = Path("/proc/stat")
_GROUP: Final = Path("/sys/fs/cgroup/cpu.stat")
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_PER_CENT: Final = 100 / 10**9  # of a processor, from ns a second
_PROCESSES: Final = 40  # the busiest; a line each for thousands would fill the disk
_WHOLE: Final = "whole"
_EVERY: Final = 4  # looks at the machine for one at each process
_IDLE: Final = (
    10  # of a processor, the part of the busiest process's time: less is a mere wrapper's
)
_BUSY: Final = (0, 1, 2, 5, 6)  # user, nice, system, hard and soft interrupts


def open_sampler(tree: Tree) -> Sampler:
    """Give the sampler of processors."""
    if not _STAT.exists():
        raise AbsentError("there is no /proc/stat")
    growth, processes, contention = Growth(), Growth(), Growth()
    looks, allowed = 0, frozenset[int]()

    def sample(now: int) -> Values:
        nonlocal looks, allowed
        tree.look()
        statuses = tree.statuses()
        values = _machine(growth, now) | _run(processes, now, statuses)
        if "cpu.total" in values:
            ours = values["cpu.tree"] + values["cpu.launcher"]
            values["cpu.foreign"] = max(0.0, values["cpu.total"] - ours)
        if looks % _EVERY == 0 or not allowed:
            allowed = _allowed(statuses)
        with suppress(OSError, ValueError, IndexError):
            values |= _contended(contention, now, allowed, values)
        if looks % _EVERY == 0:
            values |= _processes(growth, now, statuses)
        looks += 1
        return present(values)

    return sample


def _machine(growth: Growth, now: int) -> Values:
    with _STAT.open("rb") as file:
        words = [int(word) for word in file.readline().split()[1:]]
    user, nice, system, _, wait, hard, soft, stolen = words[:8]
    counters = {
        "cpu.total": (user + nice + system + hard + soft) * _TICK_NS,
        "cpu.wait": wait * _TICK_NS,
        "cpu.stolen": stolen * _TICK_NS,
        "cpu.launcher": _clock(),
    }
    with suppress(OSError, ValueError):
        counters["cpu.throttled"] = _throttled_ns()
    return _per_cent(growth, now, counters)


def _clock() -> int:
    times = os.times()
    return int((times.user + times.system) * 10**9)


def _throttled_ns() -> int:
    words = _GROUP.read_text(encoding="ascii").split()
    return 1000 * int(words[words.index("throttled_usec") + 1])


def _per_cent(growth: Growth, now: int, counters: dict[str, int]) -> Values:
    rates = {name: growth.rate(name, now, value) for name, value in counters.items()}
    return {name: rate * _PER_CENT for name, rate in rates.items() if rate is not None}


def _run(growth: Growth, now: int, statuses: dict[int, Status]) -> Values:
    """Give what the processes of the run take.

    What one took that ended counts where its parent has asked how it ended: workers that live for
    less than a look, one epoch say, are seen by that alone. Where the parent is gone it is lost.
    """
    names = {f"{number} {status.started}": status.cpu_ns for number, status in statuses.items()}
    spent = [growth.rate(name, now, cpu_ns) for name, cpu_ns in names.items()]
    living = sum(each for each in spent if each is not None)
    whole = sum(status.cpu_ns + status.waited_ns for status in statuses.values())
    both = max(living, growth.rate(_WHOLE, now, whole) or 0.0)
    growth.keep({_WHOLE, *names})
    return {"cpu.tree": both * _PER_CENT}


def _allowed(statuses: dict[int, Status]) -> frozenset[int]:
    """Give the processors that the run is bound to: those of the processes that work in it."""
    most = max((status.cpu_ns for status in statuses.values()), default=0)
    found = set[int]()
    for number, status in statuses.items():
        if status.cpu_ns * _IDLE >= most:
            with suppress(OSError):
                found |= os.sched_getaffinity(number)
    return frozenset(found)


def _contended(growth: Growth, now: int, allowed: frozenset[int], values: Values) -> Values:
    """Give what others took of the processors that the run is bound to, if they are not all."""
    if not allowed or len(allowed) >= (os.cpu_count() or 1):
        return {}
    rows = (row.split() for row in _STAT.read_text(encoding="ascii").splitlines())
    mine = {f"cpu{number}" for number in allowed}
    busy = [sum(int(row[1 + at]) for at in _BUSY) for row in rows if row and row[0] in mine]
    if len(busy) < len(mine):  # a container whose /proc/stat counts its own processors from 0
        return {}
    name = ",".join(sorted(mine))
    grown = growth.rate(name, now, sum(busy) * _TICK_NS)
    growth.keep({name})
    if grown is None or "cpu.tree" not in values:
        return {}
    ours = values["cpu.tree"]
    if os.sched_getaffinity(0) <= allowed:
        ours += values.get("cpu.launcher", 0.0)
    return {
        "cpu.contending": max(0.0, grown * _PER_CENT - ours),
        "cpu.allowed": 100.0 * len(allowed),
    }


def _processes(growth: Growth, now: int, statuses: dict[int, Status]) -> Values:
    busiest = sorted(statuses, key=lambda number: -statuses[number].cpu_ns)[:_PROCESSES]
    values: dict[str, float | None] = {}
    for number in busiest:
        status, name = statuses[number], f"process.{number}"
        spent = growth.rate(f"{name}.cpu", now, status.cpu_ns)
        values[f"{name}.cpu"] = None if spent is None else spent * _PER_CENT
        values[f"{name}.threads"] = status.threads
        values[f"{name}.rss"] = status.resident
        with suppress(OSError, ValueError, IndexError):
            waited = int(Path(f"/proc/{number}/schedstat").read_bytes().split()[1])
            queue = growth.rate(f"{name}.run_queue", now, waited)
            values[f"{name}.run_queue"] = None if queue is None else queue * _PER_CENT
    return present(values)
