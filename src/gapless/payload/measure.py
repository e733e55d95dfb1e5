"""What the kernel knows of the thread that asks: processor, run queue, faults, bytes.

The files of /proc are opened once by each thread and read with ``os.pread``, which costs 1–2 µs;
opening them anew would cost 40. A file belongs to the thread that opened it, so a fork opens its
own. What this kernel does not tell is −1, and why is kept in ``missing``.
"""

from __future__ import annotations

import os
import threading
from os import pread  # as it is: while a fetch is timed, another stands there
from time import monotonic_ns, thread_time_ns
from typing import Any, NamedTuple

from . import tracebacks

fcntl: Any
resource: Any
try:
    import fcntl
    import resource
except ImportError:  # pragma: no cover - not a Unix
    fcntl = resource = None

SCHEDSTAT = "/proc/thread-self/schedstat"
IO = "/proc/thread-self/io"
HIGH = 300  # file descriptors below are left to the user, who may count on their numbers
ABSENT = -1
TIGHT_NS = 50_000  # clocks and counters are read within this, or once more …
TRIES = 4  # … so often

missing: dict[str, str] = {}  # what is not told here, and why

_WHO = getattr(resource, "RUSAGE_THREAD", None)
_own = threading.local()
_generation = 0  # counts forks: the files of the parent's threads tell nothing of ours


class Reading(NamedTuple):
    """The counters of one thread at one moment: ns, counts and bytes; −1: not told here."""

    at: int  # CLOCK_MONOTONIC
    cpu: int
    run_queue: int
    minor_faults: int
    major_faults: int
    bytes_read: int
    bytes_from_disk: int
    own_bytes: int  # what the reading itself adds to ``bytes_read`` after it


class Gauge:
    """The open files of one thread."""

    __slots__ = ("_io", "_least", "_queue_bytes", "generation", "queue")

    def __init__(self) -> None:
        self.generation = _generation
        self._least = 0
        self._queue_bytes = 0
        self.queue = _open(SCHEDSTAT, "run queue")
        self._io = _open(IO, "bytes")

    def __del__(self) -> None:
        if self.generation == _generation:  # the parent's numbers may be others' in a child
            for number in (self.queue, self._io):
                _close(number)

    def start(self) -> Reading:
        """Give the counters before something: both clocks are read last."""
        tries = TRIES
        while True:
            tries -= 1
            began = monotonic_ns()
            minor, major = _faults()
            run_queue = self._run_queue()
            read, disk, told = self._bytes()
            cpu = thread_time_ns()
            at = monotonic_ns()
            if self._tight(at - began) or not tries:
                return Reading(at, cpu, run_queue, minor, major, read, disk, told)

    def stop(self) -> Reading:
        """Give the counters after something: both clocks are read first."""
        tries, again = TRIES, 0
        while True:
            tries -= 1
            at = monotonic_ns()
            cpu = thread_time_ns()
            read, disk, told = self._bytes()
            run_queue = self._run_queue()
            minor, major = _faults()
            if self._tight(monotonic_ns() - at) or not tries:
                return Reading(at, cpu, run_queue, minor, major, read, disk, -again)
            again += told + self._queue_bytes

    def _tight(self, took: int) -> bool:
        """Tell whether nothing came between: the scheduler likes to at the end of such a call."""
        usual = 3 * self._least  # where a call costs more: sandboxes
        self._least = min(self._least or took, took)
        return took < max(TIGHT_NS, usual)

    def _run_queue(self) -> int:
        if self.queue < 0:
            return ABSENT
        try:
            text = pread(self.queue, 128, 0)
            self._queue_bytes = len(text)
            _, waited, slices = text.split()
            if int(slices):
                return int(waited)
            why = "the kernel does not count it"
        except (OSError, ValueError) as error:
            tracebacks.pass_on(error)
            why = repr(error)
        missing["run queue"] = f"{SCHEDSTAT}: {why}"
        self.queue = -1  # not closed: the number may be another's by now
        return ABSENT

    def _bytes(self) -> tuple[int, int, int]:
        if self._io < 0:
            return ABSENT, ABSENT, 0
        try:
            text = pread(self._io, 512, 0)
            parts = text.split(None, 10)
            if parts[0] == b"rchar:" and parts[8] == b"read_bytes:":
                return int(parts[1]), int(parts[9]), len(text)
            why = f"begins with {text[:40]!r}"
        except (OSError, ValueError, IndexError) as error:
            tracebacks.pass_on(error)
            why = repr(error)
        missing["bytes"] = f"{IO}: {why}"
        self._io = -1
        return ABSENT, ABSENT, 0


def gauge() -> Gauge:
    """Give the gauge of this thread, with files that are its own."""
    try:
        found: Gauge = _own.gauge
        if found.generation == _generation:
            return found
    except AttributeError:
        pass
    found = _own.gauge = Gauge()
    return found


def between(before: Reading, after: Reading) -> tuple[int, int, int, int, int, int]:
    """Give cpu, run queue, minor and major faults, bytes read and bytes from disk of a stretch.

    Sources: CLOCK_THREAD_CPUTIME_ID; second field of schedstat; getrusage(RUSAGE_THREAD); rchar
    and read_bytes of io, less what the readings themselves read.
    """
    return (
        after.cpu - before.cpu,
        _less(after.run_queue, before.run_queue),
        _less(after.minor_faults, before.minor_faults),
        _less(after.major_faults, before.major_faults),
        _less(after.bytes_read + after.own_bytes, before.bytes_read + before.own_bytes)
        if before.bytes_read >= 0
        else ABSENT,
        _less(after.bytes_from_disk, before.bytes_from_disk),
    )


def forget() -> None:
    """Leave the files of the parent's threads alone: called in the child of a fork."""
    global _generation
    _generation += 1


def _less(after: int, before: int) -> int:
    if after < 0 or before < 0:
        return ABSENT
    return max(0, after - before)


def _faults() -> tuple[int, int]:
    if _WHO is None:
        missing["faults"] = "getrusage knows no threads here"
        return ABSENT, ABSENT
    usage = resource.getrusage(_WHO)
    return usage.ru_minflt, usage.ru_majflt


def _open(path: str, what: str) -> int:
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH)
        finally:
            os.close(number)
    except OSError as error:
        tracebacks.pass_on(error)
        missing[what] = f"{path}: {error.strerror}"
        return -1


def _close(number: int) -> None:
    """Close a file of ours, unless the program has closed it and opened its own in its place."""
    try:
        if number >= 0 and os.readlink(f"/proc/self/fd/{number}").startswith("/proc/"):
            os.close(number)
    except (OSError, AttributeError, TypeError):
        pass  # the program has closed it, or the interpreter is ending: `os` is gone


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
