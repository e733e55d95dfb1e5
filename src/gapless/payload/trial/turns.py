"""Step in turns with another process: at the end of a turn, wait for the next one.

The plan is the trial's "turns": {"start": the steps before the first turn, "steps": of a slice,
"first": whether this process begins}. The one that begins has a turn of one slice, all others of
both processes have two, so that slices of the same steps are neighbours in alternating order. The
launcher (``launch.trial.turns``) stops this process with its workers and threads meanwhile: it is
told by a byte through one pipe in the spool that a turn is over, and another says when the next one
begins. What passes between is marked as the recorder's own time.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import Any

from ... import wire
from .. import patching, recorder
from ..hooks import device_steps
from ..process_state import keep

_PATIENCE_S = 600.0  # for the other process, which may still be starting


class _Turns:
    """The plan, and the pipes: that our turn is over, that it begins."""

    def __init__(self) -> None:
        self.fork()

    def fork(self) -> None:
        """Take no turns: also in a forked child."""
        self.plan: dict[str, Any] = {}
        self.pipes: list[int] = []


turns = keep(_Turns())


def begin(plan: Any) -> None:
    """Step in turns as planned; nothing without a plan."""
    turns.fork()
    if plan:
        turns.plan.update(plan)
        recorder.on_edge(_edge)


@patching.guard("turns")
def _edge(step: int, _start: int, end: int) -> None:
    if not turns.plan or not is_turn_over(step + 1):
        return
    _wait_for_device(end)
    recorder.flush(last=True)  # no sum of steps may hold the pause
    if not _await_turn():
        turns.plan.clear()
    recorder.mark(wire.OBSERVER, end, recorder.now(), value=wire.OBSERVER_TURN)


def is_turn_over(steps_done: int) -> bool:
    """Return whether this process waits after so many steps."""
    slices, more = divmod(steps_done - turns.plan["start"], turns.plan["steps"])
    if more or slices < 0:
        return False
    return slices == 0 or slices % 2 == (1 if turns.plan["first"] else 0)


def _wait_for_device(end: int) -> None:
    """Let the device finish, and know when it has: what follows is not of this turn."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing():
        device_steps.link(end)
        sys.modules["torch"]._C._cuda_synchronize()


def _await_turn() -> bool:
    """Say that a turn is over, and wait for the next; ``False``: nobody is there to give one."""
    with contextlib.suppress(OSError):
        if not turns.pipes:
            spool = os.environ.get(wire.SPOOL, "")
            turns.pipes.append(
                os.open(os.path.join(spool, wire.TURN_OVER), os.O_WRONLY | os.O_NONBLOCK)
            )
            turns.pipes.append(
                os.open(os.path.join(spool, wire.TURN_BEGINS), os.O_RDWR | os.O_NONBLOCK)
            )
        os.write(turns.pipes[0], b"%d\n" % os.getpid())
        return bool(
            select.select([turns.pipes[1]], [], [], _PATIENCE_S)[0] and os.read(turns.pipes[1], 1)
        )
    return False
