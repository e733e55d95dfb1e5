"""A process that tells whether a signal was meant for the whole process group.

The launcher passes on what was sent to it alone: ``kill PID``. What was sent to the group, or to
every process of a Slurm step, has reached the training already, and a second one would call its
handler twice: two checkpoints, two requests to requeue. No field of a signal says which it was.
So a second, idle process stands in the group: what it gets as well was meant for all.
"""

import os
import select
import signal
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

_SAME_MOMENT_S: Final = 0.05  # between the first and the last process that are sent a signal
_LOOK_S: Final = 2.0  # how often the witness asks whether the launcher still lives


@dataclass(frozen=True)
class Witness:
    """The process, and the pipe on which it tells the signals that it got."""

    pid: int
    told: int

    def saw(self, number: int) -> bool:
        """Tell whether a signal that just came to us was sent to the group, too."""
        while select.select([self.told], [], [], _SAME_MOMENT_S)[0]:
            heard = os.read(self.told, 1)
            if heard == bytes([number]):
                return True
            if not heard:  # it was killed
                return False
        return False

    def dismiss(self) -> None:
        """End the process."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.told)


def call(signals: Collection[int]) -> Witness | None:
    """Start a witness of signals that are blocked; ``None`` where no process can be started."""
    told, tell = os.pipe()
    launcher = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(told)
        os.close(tell)
        return None
    if pid == 0:
        _watch(signals, tell, launcher)
    os.close(tell)
    return Witness(pid, told)


def _watch(signals: Collection[int], tell: int, launcher: int) -> NoReturn:
    try:
        os.closerange(0, tell)  # a pipe that the training writes to must not stay open through us
        os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
        while os.getppid() == launcher:
            heard = signal.sigtimedwait(signals, _LOOK_S)
            if heard is not None:
                os.write(tell, bytes([heard.si_signo]))
    finally:
        os._exit(0)
