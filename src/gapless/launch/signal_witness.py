"""A process that shows whether a signal was meant for the whole process group.

The launcher passes on what was sent to it alone: ``kill PID``. What was sent to the group, or to
every process of a Slurm step, has reached the training already, and a second one would call its
handler twice: two checkpoints, two requests to requeue. No field of a signal shows which it was.
So a second, idle process stands in the group: what it gets as well was meant for all.
"""

import os
import select
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NoReturn

_SAME_MOMENT_S: Final = 0.05  # between the first and the last process that are sent a signal
_SUCCESSION_S: Final = 1.0  # until a signal that waits is looked at, on a busy machine
_POLL_S: Final = 2.0  # how often the witness asks whether the launcher still lives


@dataclass(frozen=True)
class Witness:
    """The process, and the pipe on which it reports the signals that it got."""

    pid: int
    pipe: int
    reports: dict[int, float] = field(default_factory=dict[int, float])  # when, of other signals

    def saw(self, number: int) -> bool:
        """Return whether a signal that just came to us was sent to the group, too.

        Of signals in quick succession the lowest comes to us first, whichever was sent first.
        """
        if time.monotonic() - self.reports.pop(number, float("-inf")) < _SUCCESSION_S:
            return True
        while select.select([self.pipe], [], [], _SAME_MOMENT_S)[0]:
            received = os.read(self.pipe, 1)
            if received == bytes([number]):
                return True
            if not received:  # it was killed
                return False
            self.reports[received[0]] = time.monotonic()
        return False

    def dismiss(self) -> None:
        """End the process."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.pipe)


def start_witness(signals: Collection[int]) -> Witness | None:
    """Start a witness of signals that are blocked; ``None`` where no process can be started."""
    read_end, write_end = os.pipe()
    launcher = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(read_end)
        os.close(write_end)
        return None
    if pid == 0:
        _watch(signals, write_end, launcher)
    os.close(write_end)
    return Witness(pid, read_end)


def _watch(signals: Collection[int], write_end: int, launcher: int) -> NoReturn:
    try:
        # a pipe that the training writes to must not stay open through us
        os.closerange(0, write_end)
        os.closerange(write_end + 1, os.sysconf("SC_OPEN_MAX"))
        while os.getppid() == launcher:
            received = signal.sigtimedwait(signals, _POLL_S)
            if received is not None:
                os.write(write_end, bytes([received.si_signo]))
    finally:
        os._exit(0)
