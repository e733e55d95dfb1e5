"""A thread that is looked at many times a second: how long it ran, was ready, waited, for what.

The kernel counts how long a thread ran and was ready; the time that is left it waited. For what is
divided like the looks that saw it waiting: by state, and the kernel's function that it was in.
"""

from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless.live.activity import PROC, ThreadClock, describe_wait, read_clock
from gapless.live.outside.attached import ThreadUse
from gapless.model.rounding import apportion

_DISK: Final = "a disk"
_UNKNOWN: Final = "something else"


class ThreadMeter(Struct):
    """The first thread of a process."""

    pid: int
    proc: Path = PROC
    first: tuple[int, ThreadClock] | None = None
    last: tuple[int, ThreadClock] | None = None
    looks: int = 0
    _waits: Counter[str] = field(default_factory=Counter[str])

    def look(self, now_ns: int) -> bool:
        """Look at it; return whether it is there."""
        clock = read_clock(self.pid, proc=self.proc)
        if clock is None:
            return False
        self.first, self.last = self.first or (now_ns, clock), (now_ns, clock)
        self.looks += 1
        if clock.state == "D":
            self._waits[_DISK] += 1
        elif clock.state != "R":
            self._waits[describe_wait(clock.waits_in) or _UNKNOWN] += 1
        return True

    def use(self) -> ThreadUse | None:
        """Return what it did from the first look to the last; ``None`` with less than two."""
        if self.first is None or self.last is None or self.last[0] <= self.first[0]:
            return None
        (start_ns, before), (end_ns, after) = self.first, self.last
        wall_ns = end_ns - start_ns
        ran_ns = min(wall_ns, max(0, after.ran_ns - before.ran_ns))
        ready_ns = None
        if before.ready_ns is not None and after.ready_ns is not None:
            ready_ns = min(wall_ns - ran_ns, max(0, after.ready_ns - before.ready_ns))
        waited_ns = wall_ns - ran_ns - (ready_ns or 0)
        names = list(self._waits) or [_UNKNOWN]
        parts = apportion([self._waits[name] or 1 for name in names], waited_ns)
        waits = dict(zip(names, parts, strict=True))
        disk_ns = waits.pop(_DISK, 0)
        return ThreadUse(wall_ns, ran_ns, ready_ns, disk_ns, waited_ns - disk_ns, waits, self.looks)
