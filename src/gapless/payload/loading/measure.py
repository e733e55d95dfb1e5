"""What the kernel knows of the thread that asks: processor, run queue, faults, bytes.

The files of /proc are opened once by each thread and read with ``os.pread``, which costs 1–2 µs;
opening them anew would cost 40. A file belongs to the thread that opened it, so a fork opens its
own. What this kernel does not show is −1, and why is kept in ``unobserved``.
"""

from __future__ import annotations

import os
import threading
from os import pread  # as it is: while a fetch is timed, another stands there
from time import monotonic_ns, thread_time_ns
from typing import Any, NamedTuple

from .. import tracebacks
from ..process_state import keep

fcntl: Any
resource: Any
try:
    import fcntl
    import resource
except ImportError:  # pragma: no cover - not a Unix
    fcntl = resource = None

SCHEDSTAT = "/proc/thread-self/schedstat"
IO = "/proc/thread-self/io"
MIN_DESCRIPTOR = 300  # file descriptors below are left to the user, who may count on their numbers
ABSENT = -1
TIGHT_NS = 50_000  # clocks and counters are read within this, or once more …
TRIES = 4  # … so often

_RUSAGE_SCOPE = getattr(resource, "RUSAGE_THREAD", None)


class _Gauges:
    """The gauges of threads, and what they cannot read."""

    def __init__(self) -> None:
        self.unobserved: dict[str, str] = {}  # what is not known here, and why
        self.local = threading.local()
        self.n_forks = 0  # the files of the parent's threads tell nothing of ours

    def fork(self) -> None:
        """Leave the files of the parent's threads alone."""
        self.n_forks += 1


gauges = keep(_Gauges())


class Reading(NamedTuple):
    """The counters of one thread at one moment: ns, counts and bytes; −1: not known here."""

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
        self.generation = gauges.n_forks
        self._least = 0
        self._queue_bytes = 0
        self.queue = _open(SCHEDSTAT, "run queue")
        self._io = _open(IO, "bytes")

    def __del__(self) -> None:
        # In a child the parent's numbers may be others'; at the interpreter's end `gauges` is None.
        if self.generation == getattr(gauges, "n_forks", None):
            for number in (self.queue, self._io):
                _close(number)

    def start(self) -> Reading:
        """Return the counters before something: both clocks are read last."""
        tries = TRIES
        while True:
            tries -= 1
            began = monotonic_ns()
            minor, major = _faults()
            run_queue = self._run_queue()
            read, disk, own_bytes = self._bytes()
            cpu = thread_time_ns()
            now_ns = monotonic_ns()
            if self._tight(now_ns - began) or not tries:
                return Reading(now_ns, cpu, run_queue, minor, major, read, disk, own_bytes)

    def stop(self) -> Reading:
        """Return the counters after something: both clocks are read first."""
        tries, extra_bytes = TRIES, 0
        while True:
            tries -= 1
            start_ns = monotonic_ns()
            cpu = thread_time_ns()
            read, disk, own_bytes = self._bytes()
            run_queue = self._run_queue()
            minor, major = _faults()
            if self._tight(monotonic_ns() - start_ns) or not tries:
                return Reading(start_ns, cpu, run_queue, minor, major, read, disk, -extra_bytes)
            extra_bytes += own_bytes + self._queue_bytes

    def _tight(self, took: int) -> bool:
        """Return whether nothing came between: the scheduler likes to at the end of such a call."""
        usual = 3 * self._least  # where a call costs more: sandboxes
        self._least = min(self._least or took, took)
        return took < max(TIGHT_NS, usual)

    def _run_queue(self) -> int:
        if self.queue < 0:
            return ABSENT
        try:
            text = pread(self.queue, 128, 0)
            self._queue_bytes = len(text)
            _, wait_ns, slices = text.split()
            if int(slices):
                return int(wait_ns)
            why = "the kernel does not count it"
        except (OSError, ValueError) as error:
            tracebacks.pass_on(error)
            why = repr(error)
        gauges.unobserved["run queue"] = f"{SCHEDSTAT}: {why}"
        self.queue = -1  # not closed: the number may be another's by now
        return ABSENT

    def _bytes(self) -> tuple[int, int, int]:
        if self._io < 0:
            return ABSENT, ABSENT, 0
        try:
            text = pread(self._io, 512, 0)
            fields = text.split(None, 10)
            if fields[0] == b"rchar:" and fields[8] == b"read_bytes:":
                return int(fields[1]), int(fields[9]), len(text)
            why = f"begins with {text[:40]!r}"
        except (OSError, ValueError, IndexError) as error:
            tracebacks.pass_on(error)
            why = repr(error)
        gauges.unobserved["bytes"] = f"{IO}: {why}"
        self._io = -1
        return ABSENT, ABSENT, 0


def gauge() -> Gauge:
    """Return the gauge of this thread, with files that are its own."""
    try:
        thread_gauge: Gauge = gauges.local.gauge
        if thread_gauge.generation == gauges.n_forks:
            return thread_gauge
    except AttributeError:
        pass
    thread_gauge = gauges.local.gauge = Gauge()
    return thread_gauge


def subtract_readings(before: Reading, after: Reading) -> tuple[int, int, int, int, int, int]:
    """Return cpu, run queue, minor and major faults, bytes read and bytes from disk of a stretch.

    Sources: CLOCK_THREAD_CPUTIME_ID; second field of schedstat; getrusage(RUSAGE_THREAD); rchar
    and read_bytes of io, less what the readings themselves read.
    """
    return (
        after.cpu - before.cpu,
        _subtract(after.run_queue, before.run_queue),
        _subtract(after.minor_faults, before.minor_faults),
        _subtract(after.major_faults, before.major_faults),
        _subtract(after.bytes_read + after.own_bytes, before.bytes_read + before.own_bytes)
        if before.bytes_read >= 0
        else ABSENT,
        _subtract(after.bytes_from_disk, before.bytes_from_disk),
    )


def _subtract(after: int, before: int) -> int:
    if after < 0 or before < 0:
        return ABSENT
    return max(0, after - before)


def _faults() -> tuple[int, int]:
    if _RUSAGE_SCOPE is None:
        gauges.unobserved["faults"] = "getrusage knows no threads here"
        return ABSENT, ABSENT
    usage = resource.getrusage(_RUSAGE_SCOPE)
    return usage.ru_minflt, usage.ru_majflt


def _open(path: str, counter: str) -> int:
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, MIN_DESCRIPTOR)
        finally:
            os.close(number)
    except OSError as error:
        tracebacks.pass_on(error)
        gauges.unobserved[counter] = f"{path}: {error.strerror}"
        return -1


def _close(number: int) -> None:
    """Close a file of ours, unless the program has closed it and opened its own in its place."""
    try:
        if number >= 0 and os.readlink(f"/proc/self/fd/{number}").startswith("/proc/"):
            os.close(number)
    except (OSError, AttributeError, TypeError):
        pass  # the program has closed it, or the interpreter is ending: `os` is gone
