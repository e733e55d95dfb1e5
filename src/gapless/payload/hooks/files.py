"""Paths that fetches open, and files that the training process writes.

Opened paths are seen where a fetch is looked at in detail, so their counts are of a sample; the
bytes are in the rows of the fetches. Written files are those that such a fetch opens for writing
and those found open for writing when we look, every few seconds, without those that the parent has
open, too: an audit hook would see all of them, but it can never be removed, and each event in the
interpreter would pay for it. Checkpoints are noted where they are saved.
"""

from __future__ import annotations

import bisect
import os
from typing import Any

from ... import wire
from .. import declare, patching, recorder, tracebacks
from ..loading import reads
from ..log import thinning
from ..process_state import keep

EVERY_NS = 5_000_000_000
RAREST_NS = 1_800_000_000_000  # paths that were read are reported ever more rarely
BUDGET_NS = 5_000_000  # of one look at open files; what it leaves, the next one looks at
SHARE = 1_000  # of the time may go into looking
STREAMS = 2  # the highest of the standard streams, which the shell opened
MAX_PATHS = 4_000  # distinct paths; what comes after is counted together, as ""
_WRITES = frozenset("wax+")
_SYSTEMS = ("/dev/", "/proc/", "/sys/", "/memfd:")


class _Paths:
    """The paths that were seen, and when to look and to report again."""

    def __init__(self) -> None:
        self.read: dict[str, int] = {}  # since the last frame
        self.distinct_read: set[str] = set()  # distinct paths of all frames
        self.written: list[str] = []
        self.noted_written: set[str] = set()  # that were written, or are not to be reported
        self.last_ns = 0
        self.next_descriptor, self.look_ns = 0, 0  # to go on with; when to look again
        self.report_ns, self.wait_ns = 0, EVERY_NS  # of those that were read; the wait after that

    def fork(self) -> None:
        """Begin anew in the child of a fork: what the parent saw, the parent writes."""
        self.read.clear()
        self.written.clear()


_paths = keep(_Paths())


@declare.at_install
def _watch_opens() -> None:
    reads.files.note_open = patching.guard("files opened")(note_open)


def note_open(path: Any, mode: Any) -> None:
    """Note that a fetch opens a file."""
    if isinstance(path, (str, bytes, os.PathLike)):
        name = os.fsdecode(path)
        if isinstance(mode, str) and _WRITES.intersection(mode):
            _note_written(name)
        else:
            _note_read(name)


def note_first_argument(args: tuple[Any, ...], _kwargs: Any) -> None:
    """Note a path that is the first argument of a function that reads."""
    if args and isinstance(args[0], (str, os.PathLike)):
        reads.note_open(args[0], "rb")


@declare.at_seldom_edge
def edge(*_: int) -> None:
    """Look for files that are being written, every few seconds, and write what is new."""
    now = recorder.now()
    if now - _paths.last_ns >= EVERY_NS:
        if now >= _paths.look_ns:
            _look()
        _write_some()


def tick(now: int) -> None:
    """Write what is new, every few seconds: called at the end of a fetch in a worker."""
    if now - _paths.last_ns >= EVERY_NS:
        _write_some()


@declare.at_stop
def write_paths() -> None:
    """Write what is new since the last frame; counts are added by the reader."""
    _paths.last_ns = recorder.now()
    if _paths.read or _paths.written:
        recorder.write(wire.FILES, {"read": dict(_paths.read), "written": list(_paths.written)})
        _paths.read.clear()
        _paths.written.clear()


def finish() -> None:
    """Write what is new at the end of a process, if there is room."""
    if thinning.affords(last=True):
        write_paths()


def _write_some() -> None:
    """Write which files were written; those that were read only now and then."""
    _paths.last_ns = recorder.now()
    if _paths.last_ns >= _paths.report_ns and thinning.affords():
        _paths.report_ns = _paths.last_ns + _paths.wait_ns
        _paths.wait_ns = min(2 * _paths.wait_ns, RAREST_NS)
        write_paths()
    elif _paths.written:
        recorder.write(wire.FILES, {"read": {}, "written": list(_paths.written)})
        _paths.written.clear()


def _note_read(name: str) -> None:
    if name not in _paths.distinct_read:
        if len(_paths.distinct_read) >= MAX_PATHS:
            name = ""
        else:
            _paths.distinct_read.add(name)
    _paths.read[name] = _paths.read.get(name, 0) + 1


def _note_written(name: str) -> None:
    name = os.path.abspath(name)
    if name not in _paths.noted_written and len(_paths.noted_written) < MAX_PATHS:
        _paths.noted_written.add(name)
        _paths.written.append(name)


def _look() -> None:
    """Look at open files, in turn where a program has thousands: 20,000 would take a second."""
    start = recorder.now()
    spool = os.environ.get(wire.SPOOL) or "\0"
    numbers = sorted(int(number) for number in os.listdir("/proc/self/fd"))
    first_number = max(_paths.next_descriptor, STREAMS + 1)
    _paths.next_descriptor = 0
    for number in numbers[bisect.bisect_left(numbers, first_number) :]:
        if recorder.now() - start > BUDGET_NS:
            _paths.next_descriptor = number
            break
        path = _written_to(str(number))
        if path.startswith("/") and not path.startswith((*_SYSTEMS, spool)):
            if path not in _paths.noted_written and _is_inherited(str(number), path):
                _paths.noted_written.add(path)
            _note_written(path)
    now = recorder.now()
    _paths.look_ns = now + SHARE * (now - start)


def _is_inherited(number: str, path: str) -> bool:
    """Return whether the parent has a file open by the same number: a lock of the shell's, say."""
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/{number}") == path
    except OSError as error:
        tracebacks.pass_on(error)
        return False  # it is not open there, or not ours to see


def _written_to(number: str) -> str:
    """Return the path of an open file if it is open for writing, else an empty one."""
    try:
        with open("/proc/self/fdinfo/" + number, "rb") as info:
            flags = info.read().partition(b"flags:")[2].split(None, 1)
        writes = bool(flags) and int(flags[0], 8) & os.O_ACCMODE != os.O_RDONLY
        return os.readlink("/proc/self/fd/" + number) if writes else ""
    except OSError as error:
        tracebacks.pass_on(error)
        return ""  # closed since, by another thread
