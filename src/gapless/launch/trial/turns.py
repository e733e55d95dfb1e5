"""Let two arms step in turns: one is stopped, with its workers and threads, while the other steps.

An arm says by a pipe in its spool that its turn is over (``payload.trial.turns``). Then all its
processes are stopped, the other's go on, and a byte through another pipe lets that one step. So a
machine that changes in seconds changes for both alike, and what loaders make ahead stays as it was.
An arm that has ended takes no more turns, and the other one steps without.
"""

import os
import select
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gapless import wire
from gapless.launch import process_tree
from gapless.launch.run import checking
from gapless.launch.trial import supervisor

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.05


class Seat(Struct):
    """One of two arms that take turns: its pipes, and what of it is stopped."""

    over_pipe: int = -1
    begins_pipe: int = -1
    spool: Path = field(default_factory=Path)
    turns: int = 0  # that are over; it waits for the next one
    is_waiting: bool = False
    has_left: bool = False
    stopped: dict[int, int] = field(default_factory=dict[int, int])  # number → when it started

    def open(self, spool: Path) -> None:
        """Make the pipes in the spool of its arm. Raises ``OSError``."""
        for name in (wire.TURN_OVER, wire.TURN_BEGINS):
            os.mkfifo(spool / name, 0o600)
        self.spool = spool
        self.begins_pipe = os.open(spool / wire.TURN_BEGINS, os.O_RDWR | os.O_NONBLOCK)
        self.over_pipe = os.open(spool / wire.TURN_OVER, os.O_RDWR | os.O_NONBLOCK)

    def leave(self) -> None:
        """Take no more turns: its arm has ended."""
        self.has_left = True

    def hear(self) -> None:
        """Take note of a turn that is over, and stop the arm's processes."""
        with suppress(BlockingIOError):
            numbers = os.read(self.over_pipe, 4096).split()
            self.is_waiting = True
            self.turns += 1
            self._stop(int(numbers[-1]))

    def give_turn(self) -> None:
        """Let the arm's processes go on, and the training step."""
        self.is_waiting = False
        for number, started in reversed(self.stopped.items()):  # workers first
            checking.send_signal(number, started, signal.SIGCONT)
        self.stopped.clear()
        with suppress(OSError):
            os.write(self.begins_pipe, b"\n")

    def close(self) -> None:
        """Let go of the pipes."""
        for pipe in (self.over_pipe, self.begins_pipe):
            if pipe >= 0:
                os.close(pipe)

    def _stop(self, training: int) -> None:
        """Stop the training and what is below it; another name space has other numbers."""
        if not process_tree.names_spool(_PROC, training, self.spool):
            return
        for number in (training, *supervisor.find_descendants(training)):
            status = process_tree.read(_PROC, number)
            if status is not None and not status.is_over:
                checking.send_signal(number, status.started, signal.SIGSTOP)
                self.stopped[number] = status.started


def conduct(first: Seat, second: Seat, has_ended: threading.Event) -> None:
    """Give turns until both arms have left, or it is ended: for a thread of its own."""
    seats = first, second
    while not has_ended.is_set() and not (first.has_left and second.has_left):
        pipes = {seat.over_pipe: seat for seat in seats if seat.over_pipe >= 0}
        if not pipes:
            time.sleep(_POLL_S)
            continue
        for pipe in select.select(list(pipes), [], [], _POLL_S)[0]:
            pipes[pipe].hear()
        seat = choose(first, second)
        if seat is not None:
            seat.give_turn()
    for seat in seats:
        seat.close()


def choose(first: Seat, second: Seat) -> Seat | None:
    """Return whose turn it is; ``None``: one steps, or is still starting."""
    waiting = [seat for seat in (first, second) if seat.is_waiting and not seat.has_left]
    if len(waiting) == 2:  # noqa: PLR2004 - both
        return second if second.turns < first.turns else first
    others_left = [seat for seat in waiting if (second if seat is first else first).has_left]
    return others_left[0] if others_left else None
