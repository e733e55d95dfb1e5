"""End a command once enough was recorded of it: ``gapless check``."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from gapless import wire
from gapless.launch import process_tree
from gapless.launch.run import unstepped
from gapless.launch.run.pacing import Patience, StepPace

_PROC: Final = Path("/proc")
_LOOK_S: Final = 0.25
_GRACE_S: Final = 10.0  # between SIGTERM and SIGKILL


class CheckProgress(Struct):
    """What the logs in a spool say of the processes that write them."""

    windows: int = 0
    trainings: dict[int, bool] = field(default_factory=dict[int, bool])  # number → left when asked
    workers: set[int] = field(default_factory=set[int])
    pace: StepPace = field(default_factory=StepPace)
    expected_end: str = "check"  # how a process ends that left as it was asked to
    _read_lengths: dict[str, int] = field(default_factory=dict[str, int])
    _writers: dict[str, int] = field(default_factory=dict[str, int])

    def look(self, spool: Path) -> None:
        """Read what was appended since the last look."""
        for path in sorted(spool.glob("rank*.log")):
            with suppress(OSError), path.open("rb") as file:
                file.seek(self._read_lengths.get(path.name, 0))
                frames, length = wire.frames(file.read())
                self._read_lengths[path.name] = self._read_lengths.get(path.name, 0) + length
                for frame in frames:
                    if frame.kind == wire.MARKS:
                        self.pace.take_marks(path.name, frame.body)
                    elif frame.kind not in wire.PACKED:
                        self._take_frame(path.name, frame.kind, frame.text())

    def _take_frame(self, log: str, kind: int, body: dict[str, Any]) -> None:
        if kind == wire.PROCESS:
            self._writers[log] = body["pid"]
            if body["role"] == "worker":
                self.workers.add(body["pid"])
            else:
                self.trainings[body["pid"]] = False
        elif kind == wire.WINDOW:
            self.windows += body.get("discarded") is None
        elif kind == wire.END and self._writers.get(log) in self.trainings:
            # One that came to its own end, windows or not, is on its way out: nobody ends it.
            self.trainings[self._writers[log]] = body.get("how") == self.expected_end

    def has_left(self) -> bool:
        """Return whether a process has left as it was asked to."""
        return any(self.trainings.values())

    def goes_on(self) -> bool:
        """Return whether a process trains."""
        return any(
            not has_left and _is_alive(number) for number, has_left in self.trainings.items()
        )

    def is_done(self) -> bool:
        """Return whether a process has left as it was asked to, and none is to be waited for."""
        return self.has_left() and not self.goes_on()


def wait_for_enough(stop: threading.Event, spool: Path, patience: Patience) -> bool:
    """Wait until enough is recorded or the time is over; ``False`` if told to stop meanwhile.

    The time for a window counts from the first batch or step. As long as there is none it counts
    from when PyTorch was loaded.
    """
    progress = CheckProgress()
    began, wait_s = time.monotonic(), 0.0
    while not stop.wait(_LOOK_S):
        had_windows, had_training = progress.windows, bool(progress.trainings)
        progress.look(spool)
        if (progress.windows and not had_windows) or (progress.trainings and not had_training):
            began = time.monotonic()
        if progress.windows:
            wait_s = patience.after_window(progress.pace)
        elif progress.trainings:
            wait_s = patience.before_window(progress.pace, several=len(progress.trainings) > 1)
        else:
            wait_s = patience.before_any(
                began,
                unstepped.newest_load_s(spool),
                is_silent=unstepped.is_any_silent(spool),
            )
        if progress.is_done() or time.monotonic() > began + wait_s:
            return True
    return False


def end_tree(spool: Path, other_processes: Callable[[], Iterable[int]]) -> None:
    """End the processes of a run: SIGTERM, except to workers, which end with theirs; then SIGKILL.

    ``other_processes`` are those of the run that do not show our environment.
    """
    progress = CheckProgress()
    progress.look(spool)
    starts_by_pid = _find_alive(spool, other_processes())
    for number, started in starts_by_pid.items():
        if number not in progress.workers:
            send_signal(number, started, signal.SIGTERM)
    until = time.monotonic() + _GRACE_S
    while _find_alive(spool, other_processes()) and time.monotonic() < until:
        time.sleep(0.1)
    for number, started in _find_alive(spool, other_processes()).items():
        send_signal(number, started, signal.SIGKILL)


def _find_alive(spool: Path, other_processes: Iterable[int]) -> dict[int, int]:
    starts_by_pid = process_tree.find_by_spool(spool)
    for number in other_processes:
        status = process_tree.read(_PROC, number)
        if status is not None and not status.is_over:
            starts_by_pid[number] = status.started
    return starts_by_pid


def _is_alive(number: int) -> bool:
    status = process_tree.read(_PROC, number)
    return status is not None and not status.is_over


def send_signal(number: int, started: int, signal_number: int) -> None:
    """Send a signal to a process, and surely not to another that got its number meanwhile."""
    with suppress(OSError):
        process = os.pidfd_open(number)
        try:
            status = process_tree.read(_PROC, number)
            if status is not None and status.started == started:
                signal.pidfd_send_signal(process, signal_number)
        finally:
            os.close(process)
