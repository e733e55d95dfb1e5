"""The processes of the run: the command and all that it started.

Only numbers of processes that were not there at the last look are examined, so that a look costs
the same on a machine with thousands of processes. A process whose parent was gone before anybody
looked is known by its environment, which names the spool.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from gapless import wire

_PROC: Final = Path("/proc")
_OPEN: Final = 256  # stat files that are kept open, which halves the cost of reading them
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")


class Status(NamedTuple):
    """What ``/proc/PID/stat`` says of a process, or ``/proc/PID/task/TID/stat`` of a thread."""

    parent: int
    cpu_ns: int
    threads: int
    started: int  # ticks after the boot: with the number, who it is
    resident: int  # bytes
    is_over: bool  # it ended, and its parent has not asked yet how
    children_cpu_ns: int  # what its children that ended, and theirs, were on a processor
    kernel_ns: int  # of ``cpu_ns``
    minor_faults: int  # page faults that needed no disk


class Tree(Struct):
    """The processes of a run that were seen alive at the last look."""

    root: int
    spool: Path
    proc: Path = _PROC
    members: dict[int, int] = field(default_factory=dict[int, int])  # number → when it started
    _examined: set[int] = field(default_factory=set[int])
    _files: dict[int, int] = field(default_factory=dict[int, int])

    def look(self) -> None:
        """Find the processes that came since the last look."""
        numbers = {int(name) for name in os.listdir(self.proc) if name.isdigit()}  # noqa: PTH208
        for number in sorted(numbers - self._examined):  # parents first, but for a wrapped counter
            status = read(self.proc, number)
            if status is not None and self._belongs(number, status):
                self.members[number] = status.started
        self._examined = numbers

    def _belongs(self, number: int, status: Status) -> bool:
        if number == self.root or status.parent in self.members:
            return True
        return status.parent == 1 and names_spool(self.proc, number, self.spool)

    def statuses(self) -> dict[int, Status]:
        """Return what the kernel says of each; those that ended are forgotten."""
        statuses: dict[int, Status] = {}
        for number, started in list(self.members.items()):
            status = self._read(number)
            if status is not None and status.started == started:
                statuses[number] = status
            else:
                self._forget(number)
        return statuses

    def _read(self, number: int) -> Status | None:
        file = self._files.get(number)
        try:
            if file is None:
                file = os.open(self.proc / str(number) / "stat", os.O_RDONLY)
                if len(self._files) >= _OPEN:
                    return _read_once(file)
                self._files[number] = file
            return parse(os.pread(file, 2048, 0))
        except (OSError, ValueError, IndexError):
            return None

    def _forget(self, number: int) -> None:
        del self.members[number]
        file = self._files.pop(number, None)
        if file is not None:
            os.close(file)


def _read_once(file: int) -> Status:
    try:
        return parse(os.pread(file, 2048, 0))
    finally:
        os.close(file)


def read(proc: Path, number: int) -> Status | None:
    """Return what the kernel says of a process; ``None`` if it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return parse((proc / str(number) / "stat").read_bytes())
    return None


def parse(text: bytes) -> Status:
    """Return the parts of a stat file that we use; the name in it may hold blanks and brackets."""
    words = text[text.rindex(b")") + 2 :].split()
    return Status(
        parent=int(words[1]),
        cpu_ns=(int(words[11]) + int(words[12])) * _TICK_NS,
        threads=int(words[17]),
        started=int(words[19]),
        resident=int(words[21]) * _PAGE,
        is_over=words[0] in {b"Z", b"X"},
        children_cpu_ns=(int(words[13]) + int(words[14])) * _TICK_NS,
        kernel_ns=int(words[12]) * _TICK_NS,
        minor_faults=int(words[7]),
    )


def names_spool(proc: Path, number: int, spool: Path) -> bool:
    """Return whether the environment that a process was started with names our spool."""
    entry = f"{wire.SPOOL}={spool}".encode()
    with suppress(OSError):
        return entry in (proc / str(number) / "environ").read_bytes().split(b"\0")
    return False


def find_by_spool(spool: Path, proc: Path = _PROC) -> dict[int, int]:
    """Return all processes whose environment names our spool: number → start."""
    starts_by_pid: dict[int, int] = {}
    for name in os.listdir(proc):  # noqa: PTH208
        if name.isdigit() and int(name) != os.getpid() and names_spool(proc, int(name), spool):
            status = read(proc, int(name))
            if status is not None and not status.is_over:
                starts_by_pid[int(name)] = status.started
    return starts_by_pid
