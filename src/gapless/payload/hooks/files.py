"""Paths that fetches open, and files that the training process writes.

Opened paths are seen where a fetch is looked at in detail, so their counts are of a sample; the
bytes are in the rows of the fetches. Written files are those that such a fetch opens for writing
and those found open for writing when we look, every few seconds: an audit hook would see all of
them, but it can never be removed, and each event in the interpreter would pay for it. Checkpoints
are noted where they are saved.
"""

from __future__ import annotations

import bisect
import os
from typing import Any

from ... import wire
from .. import patching, recorder, tracebacks
from ..loading import reads
from ..log import thinning

EVERY_NS = 5_000_000_000
RAREST_NS = 1_800_000_000_000  # paths that were read are reported ever more rarely
BUDGET_NS = 5_000_000  # of one look at open files; what it leaves, the next one looks at
SHARE = 1_000  # of the time may go into looking
STREAMS = 2  # the highest of the standard streams, which the shell opened
MAX_PATHS = 4_000  # distinct paths; what comes after is counted together, as ""
_WRITES = frozenset("wax+")
_SYSTEMS = ("/dev/", "/proc/", "/sys/", "/memfd:")

_read: dict[str, int] = {}  # since the last frame
_distinct_read: set[str] = set()  # distinct paths of all frames
_written: list[str] = []
_noted_written: set[str] = set()  # files that were written, or that are not to be reported
_last_ns = 0
_turn = {"next": 0, "due": 0}  # the descriptor to go on with; when to look again
_reads = {"due": 0, "wait": EVERY_NS}  # when to report those that were read; the wait after that


def install() -> None:
    """Count paths from now on."""
    reads.note_open = patching.guard("files opened")(note_open)
    recorder.on_edge(edge, seldom=True)
    recorder.on_stop(write_paths)


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


def edge(*_: int) -> None:
    """Look for files that are being written, every few seconds, and write what is new."""
    now = recorder.now()
    if now - _last_ns >= EVERY_NS:
        if now >= _turn["due"]:
            _look()
        _write_some()


def tick(now: int) -> None:
    """Write what is new, every few seconds: called at the end of a fetch in a worker."""
    if now - _last_ns >= EVERY_NS:
        _write_some()


def write_paths() -> None:
    """Write what is new since the last frame; counts are added by the reader."""
    global _last_ns
    _last_ns = recorder.now()
    if _read or _written:
        recorder.write(wire.FILES, {"read": dict(_read), "written": list(_written)})
        _read.clear()
        _written.clear()


def finish() -> None:
    """Write what is new at the end of a process, if there is room."""
    if thinning.affords(last=True):
        write_paths()


def _write_some() -> None:
    """Write which files were written; those that were read only now and then."""
    global _last_ns
    _last_ns = recorder.now()
    if _last_ns >= _reads["due"] and thinning.affords():
        _reads.update(due=_last_ns + _reads["wait"], wait=min(2 * _reads["wait"], RAREST_NS))
        write_paths()
    elif _written:
        recorder.write(wire.FILES, {"read": {}, "written": list(_written)})
        _written.clear()


def forget() -> None:
    """Begin anew in the child of a fork: what the parent saw, the parent writes."""
    _read.clear()
    _written.clear()


def _note_read(name: str) -> None:
    if name not in _distinct_read:
        if len(_distinct_read) >= MAX_PATHS:
            name = ""
        else:
            _distinct_read.add(name)
    _read[name] = _read.get(name, 0) + 1


def _note_written(name: str) -> None:
    name = os.path.abspath(name)
    if name not in _noted_written and len(_noted_written) < MAX_PATHS:
        _noted_written.add(name)
        _written.append(name)


def _look() -> None:
    """Look at open files, in turn where a program has thousands: 20,000 would take a second."""
    start = recorder.now()
    spool = os.environ.get(wire.SPOOL) or "\0"
    numbers = sorted(int(number) for number in os.listdir("/proc/self/fd"))
    first_number = max(_turn["next"], STREAMS + 1)
    _turn["next"] = 0
    for number in numbers[bisect.bisect_left(numbers, first_number) :]:
        if recorder.now() - start > BUDGET_NS:
            _turn["next"] = number
            break
        path = _written_to(str(number))
        if path.startswith("/") and not path.startswith((*_SYSTEMS, spool)):
            _note_written(path)
    now = recorder.now()
    _turn["due"] = now + SHARE * (now - start)


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
