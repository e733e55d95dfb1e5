"""What others use of the processors while the machine is read: two looks at all processes."""

import os
import time
from contextlib import suppress
from typing import Any, Final

import psutil
from msgspec import Struct

from gapless.doctor.subject import BusyProcess, ProcessorUse
from gapless.launch.unobserved import contain_failures

_LOOK_S: Final = 0.5  # between two looks
_MIN_BUSY: Final = 0.02  # of a processor
_IDLE_FIELDS: Final = frozenset(("idle", "iowait", "guest", "guest_nice"))  # or counted elsewhere


class ProcessorTimes(Struct, frozen=True):
    """Processor seconds so far: of each process with its name, and of the whole machine."""

    at_s: float
    spent: dict[int, tuple[str, float]]
    ours: frozenset[int]
    machine_s: float  # of the processors that we may use


def read_processor_times() -> ProcessorTimes | None:
    """Return the times of now; ``None`` where /proc hides what psutil needs."""
    times: list[ProcessorTimes] = []
    with contain_failures():
        spent: dict[int, tuple[str, float]] = {}
        ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        machine_s = sum(map(_sum_busy, _usable_times()))
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                processor_time = process.cpu_times()
                spent[process.pid] = (process.name(), processor_time.user + processor_time.system)
        times.append(ProcessorTimes(time.monotonic(), spent, frozenset(ours), machine_s))
    return times[0] if times else None


def _usable_times() -> list[Any]:
    """Return the times of each processor that we may use."""
    times = psutil.cpu_times(percpu=True)
    if not hasattr(os, "sched_getaffinity"):
        return times
    allowed = os.sched_getaffinity(0)
    return [
        processor_time for number, processor_time in enumerate(times) if number in allowed
    ] or times


def _sum_busy(times: Any) -> float:  # noqa: ANN401 - its fields differ by system
    return sum(value for name, value in times._asdict().items() if name not in _IDLE_FIELDS)


def find_processor_use(before: ProcessorTimes | None) -> ProcessorUse | None:
    """Return what others use, by their times now and a while ago; ``None`` if it is not known.

    What our processors did and no process in sight did is of hidden ones: those outside a
    container, those of other users where /proc hides them, and those that have ended meanwhile.
    """
    if before is None:
        return None
    time.sleep(max(0.0, before.at_s + _LOOK_S - time.monotonic()))
    after = read_processor_times()
    if after is None:
        return None
    elapsed_s = after.at_s - before.at_s
    ours = before.ours | after.ours
    busy: list[BusyProcess] = []
    hidden_s = after.machine_s - before.machine_s
    for number, (name, spent) in after.spent.items():
        is_new = number not in before.spent
        used_s = spent - (0.0 if is_new else before.spent[number][1])
        hidden_s -= used_s
        if number not in ours and not is_new and used_s > _MIN_BUSY * elapsed_s:
            busy.append(BusyProcess(name, number, used_s / elapsed_s))
    return ProcessorUse(tuple(busy), max(0.0, hidden_s / elapsed_s))
