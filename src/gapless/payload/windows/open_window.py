"""A window that is open, from its opening to its last step."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .. import recorder
from . import collecting, repeats
from .capture import ProfilerCapture
from .plan import MIN_WINDOW_STEPS, PROBE, STACKS, WINDOW

if TYPE_CHECKING:
    from .collecting import Collections
    from .repeats import Repeats
import sys


class DeviceMark:
    """A place in what was launched on the current stream; it is put there when this is made."""

    def __init__(self) -> None:
        self._event: Any = None
        cuda = sys.modules.get("torch.cuda")
        # Of a graph that is being captured the event would become a part.
        if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return
        event = cuda.Event()
        event.record()
        self._event = event

    def has_passed(self) -> bool:
        """Return whether the device has passed the place; ``True`` where that cannot be asked."""
        if self._event is None:
            return True
        cuda = sys.modules["torch.cuda"]
        return bool(cuda.is_current_stream_capturing() or self._event.query())


def is_idle() -> bool:
    """Return whether the device has done all of the current stream, without waiting for it."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return False
    return bool(cuda.current_stream().query())


TELLS_NS = 200_000_000  # a whole step that took so long is informative, be it one


class OpenWindow:
    """A window that is open."""

    def __init__(self, kind: str, number: int, step: int, planned_steps: int) -> None:
        self.what, self.number, self.want = kind, number, planned_steps
        self.step = step  # that ended when it was opened
        self.steps = 0  # whole ones since
        self.thread = threading.get_ident()
        self.capture = ProfilerCapture(stacks=kind is STACKS)
        self.begin: list[tuple[int, int]] = []
        self.begun = self.start = recorder.now()
        self.stepped = 0  # when the last whole step ended
        self.deadline = 0
        self.reached: DeviceMark | None = None  # the end of its last planned step
        self.evaluation: Any = None  # the range that is open while the model evaluates
        self.collections: Collections | None = None
        self.repeats: Repeats | None = None

    def watch(self) -> None:
        """Look at what only an open window shows: collections, or repeated passes."""
        if self.what is WINDOW:
            self.collections = collecting.watch()
        elif self.what is STACKS:
            self.repeats = repeats.watch()

    def end_ranges(self) -> None:
        """End the ranges that last: the window closes.

        And let go of the event on the device here, in the process whose it is: in a forked child
        that frees it, be it as garbage, torch ends the process.
        """
        self.reached = None
        if self.repeats is not None:
            self.repeats.end()
        self.end_evaluation()
        if self.collections is not None:
            self.collections.end()

    def end_evaluation(self) -> None:
        """End the evaluation, if there is one."""
        span, self.evaluation = self.evaluation, None
        if span is not None:
            span.__exit__(None, None, None)

    def cost(self, closing_ns: int, usual: int) -> int:
        """Return what a window cost that began to close at ``begun``.

        Starting, stopping, and what its steps took longer than ``usual`` ones; 0: those are not
        known.
        """
        now = recorder.now()
        slower = closing_ns - self.start - self.steps * usual if usual else 0
        return self.start - self.begun + max(0, slower) + now - closing_ns

    def frame(self, step: int) -> dict[str, Any]:
        """Return what is written down of a window whose last step is this one."""
        return {
            "number": self.number,
            "path": None,
            "start": self.start,
            "end": recorder.now(),
            "first_step": self.step + 1,
            "last_step": step,
            "stacks": self.what is STACKS,
            "stop_ns": None,
            "save_ns": None,
            "discarded": None,
            "detached": self.capture.detached,
        }

    def is_whole(self) -> bool:
        """Return whether all planned steps are in, so that it lasts for its device alone."""
        return self.what is not PROBE and self.steps >= self.want

    def is_informative(self) -> bool:
        """Return whether the window shows steps, and what their device did."""
        if self.what is PROBE or not self.steps:
            return False
        has_enough = self.steps >= MIN_WINDOW_STEPS or self.stepped - self.start >= TELLS_NS
        return has_enough and (not self.capture.cuda or is_idle())

    def is_done(self, extra_steps: int) -> bool:
        """Return whether the device has done the planned steps, or that was waited for long enough.

        It is waited for during ``extra_steps`` at most. A probe is there for its events alone.
        """
        if self.steps < self.want:
            return False
        if self.what is PROBE or not self.capture.cuda:
            return True
        self.reached = self.reached or DeviceMark()
        return self.reached.has_passed() or self.steps >= self.want + extra_steps
