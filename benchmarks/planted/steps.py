"""Read when a process stepped, on a clock that stands still with it, and what others took."""

import itertools
import os
import statistics
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_RECORD: Final = struct.Struct("<Bd")  # kind (0: optimizer, 1: backward), seconds
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SESSION: Final = 3  # fields of /proc/PID/stat behind the name
_OWN_TICKS: Final = slice(11, 15)  # in user and system mode, and of children that have ended
_IDLE: Final = (3, 4)  # fields of a processor in /proc/stat: idle, waiting for a disk
# By process. Where many lanes run, to read all of them takes a second, and four times a pair.
_session_of: Final[dict[str, int]] = {}


class Stream:
    """The steps of a process as it appends them to a file: by its optimizer, and by backward."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self.marks: tuple[list[float], list[float]] = ([], [])
        self._path = path
        self._read = 0
        self.refresh()

    def refresh(self, kind: int = 0) -> int:
        """Read on; give how many marks of a kind there are now."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
            data = data[: len(data) // _RECORD.size * _RECORD.size]
            self._read += len(data)
            for mark_kind, mark in _RECORD.iter_unpack(data):
                self.marks[mark_kind].append(mark)
        return len(self.marks[kind])

    def has_stepped(self, min_steps: int, slow: tuple[int, float]) -> bool:
        """Return whether it has stepped often enough: fewer times if it takes its time."""
        self.refresh()
        marks = self.marks[0] or self.marks[1]
        slow_steps, seconds = slow
        return len(marks) >= min_steps or (
            len(marks) >= slow_steps and marks[-1] - marks[0] >= seconds
        )

    def step_s(self, kind: int) -> float:
        """Return what a step took last: the median of some, since the first ones take longer."""
        recent = self.marks[kind][-6:]
        return statistics.median(b - a for a, b in itertools.pairwise(recent))


def own_time(marks: Sequence[float], turns: Sequence[tuple[float, float]]) -> list[float]:
    """Return marks on the clock of a side, which stands still while the side does."""
    return [sum(min(end, mark) - begin for begin, end in turns if begin < mark) for mark in marks]


def foreign_s(session: int, cores: Sequence[int]) -> float:
    """Return the processors' time so far, of these or all, that none of a session's processes used.

    Where the kernel does not tell, or tells less than the session used (as some sandboxes do), it
    is nothing.
    """
    return max(0.0, busy_s(cores) - _own_ticks(session) / _TICKS)


def busy_s(cores: Sequence[int]) -> float:
    """Return the time so far in which these processors, or all, worked for anyone."""
    try:
        rows = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    names = {f"cpu{core}" for core in cores} or {"cpu"}
    return sum(_busy(row.split()[1:9]) for row in rows if row.split()[0] in names) / _TICKS


def _busy(fields: Sequence[str]) -> int:
    return sum(int(field) for index, field in enumerate(fields) if index not in _IDLE)


def _own_ticks(session: int) -> int:
    names = {name for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208 - faster
    for name in set(_session_of) - names:
        _session_of.pop(name, None)
    leader = str(session)  # perhaps seen before it had its session
    own = [name for name in names if _session_of.get(name, session) == session or name == leader]
    rows = [(name, _read_process(name)) for name in own]
    _session_of.update((name, int(fields[_SESSION])) for name, fields in rows if fields)
    return sum(
        sum(map(int, fields[_OWN_TICKS]))
        for _, fields in rows
        if fields and int(fields[_SESSION]) == session
    )


def _read_process(name: str) -> list[str]:
    """Return what the kernel says of a process behind its name; nothing once it has ended."""
    try:
        text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
