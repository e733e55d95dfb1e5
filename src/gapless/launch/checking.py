"""End a command once enough was recorded of it: ``gapless check``."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gapless import wire
from gapless.launch import tree, unstepped
from gapless.launch.pacing import Pace, Patience

_PROC: Final = Path("/proc")
_LOOK_S: Final = 0.25
_GRACE_S: Final = 10.0  # between SIGTERM and SIGKILL


@dataclass
class Progress:
    """What the logs in a spool say of the processes that write them."""

    windows: int = 0
    training: dict[int, bool] = field(default_factory=dict[int, bool])  # number → left when asked
    workers: set[int] = field(default_factory=set[int])
    pace: Pace = field(default_factory=Pace)
    asked: str = "check"  # how a process ends that left as it was asked to
    _read: dict[str, int] = field(default_factory=dict[str, int])
    _writer: dict[str, int] = field(default_factory=dict[str, int])

    def look(self, spool: Path) -> None:
        """Read what was appended since the last look."""
        for path in sorted(spool.glob("rank*.log")):
            with suppress(OSError), path.open("rb") as file:
                file.seek(self._read.get(path.name, 0))
                frames, length = wire.frames(file.read())
                self._read[path.name] = self._read.get(path.name, 0) + length
                for frame in frames:
                    if frame.kind == wire.MARKS:
                        self.pace.take(path.name, frame.body)
                    elif frame.kind not in wire.PACKED:
                        self._take(path.name, frame.kind, frame.text())

    def _take(self, log: str, kind: int, told: dict[str, Any]) -> None:
        if kind == wire.PROCESS:
            self._writer[log] = told["pid"]
            if told["role"] == "worker":
                self.workers.add(told["pid"])
            else:
                self.training[told["pid"]] = False
        elif kind == wire.WINDOW:
            self.windows += told.get("discarded") is None
        elif kind == wire.END and self._writer.get(log) in self.training:
            # One that came to its own end, windows or not, is on its way out: nobody ends it.
            self.training[self._writer[log]] = told.get("how") == self.asked

    def left(self) -> bool:
        """Tell whether a process has left as it was asked to."""
        return any(self.training.values())

    def goes_on(self) -> bool:
        """Tell whether a process trains."""
        return any(not asked and _lives(number) for number, asked in self.training.items())

    def done(self) -> bool:
        """Tell whether a process has left as it was asked to, and none is to be waited for."""
        return self.left() and not self.goes_on()


def wait_for_enough(stop: threading.Event, spool: Path, patience: Patience) -> bool:
    """Wait until enough is recorded or the time is over; ``False`` if told to stop meanwhile.

    The time for a window counts from the first batch or step. As long as there is none it counts
    from when PyTorch was loaded.
    """
    progress = Progress()
    began, wait = time.monotonic(), 0.0
    while not stop.wait(_LOOK_S):
        windows, begun = progress.windows, bool(progress.training)
        progress.look(spool)
        if (progress.windows and not windows) or (progress.training and not begun):
            began = time.monotonic()
        if progress.windows:
            wait = patience.after_window(progress.pace)
        elif progress.training:
            wait = patience.before_window(progress.pace, several=len(progress.training) > 1)
        else:
            wait = patience.before_any(began, unstepped.newest_load_s(spool))
        if progress.done() or time.monotonic() > began + wait:
            return True
    return False


def end_tree(spool: Path, others: Callable[[], Iterable[int]]) -> None:
    """End the processes of a run: SIGTERM, but to workers, which end with their training; SIGKILL.

    ``others`` are processes of the run that do not show our environment.
    """
    progress = Progress()
    progress.look(spool)
    number_of = _alive(spool, others())
    for number, started in number_of.items():
        if number not in progress.workers:
            send(number, started, signal.SIGTERM)
    until = time.monotonic() + _GRACE_S
    while _alive(spool, others()) and time.monotonic() < until:
        time.sleep(0.1)
    for number, started in _alive(spool, others()).items():
        send(number, started, signal.SIGKILL)


def _alive(spool: Path, others: Iterable[int]) -> dict[int, int]:
    found = tree.left(spool)
    for number in others:
        status = tree.read(_PROC, number)
        if status is not None and not status.over:
            found[number] = status.started
    return found


def _lives(number: int) -> bool:
    status = tree.read(_PROC, number)
    return status is not None and not status.over


def send(number: int, started: int, signal_number: int) -> None:
    """Send a signal to a process, and surely not to another that got its number meanwhile."""
    with suppress(OSError):
        process = os.pidfd_open(number)
        try:
            status = tree.read(_PROC, number)
            if status is not None and status.started == started:
                signal.pidfd_send_signal(process, signal_number)
        finally:
            os.close(process)
