"""Edits that are switched while the training runs: blocks of steps with and without them, in turn.

The plan is the trial's "switching": {"sides": lists of edits, "warm": steps before the first block,
"block_s": seconds of a block, "min_steps" of it, "min_rounds" and "max_rounds": blocks of each
side}. Blocks go A A A B A C A B A C A …: each of a side lies between two unedited ones. Each switch
is a mark, SWITCH. What cannot be switched is marked as failed and left out; the training goes on.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from ... import wire
from .. import overlay, patching, recorder, tracebacks
from ..overlay import models
from ..overlay.patch import edit_counters
from . import flags, losses, stop

FIRST_NUMBER = 1000  # of the edits of the first side; so many numbers belong to each
FIRST_BLOCKS = 3  # unedited ones, before the first switch
SETTLING = 0.25  # of a block: the steps after a switch that do not count
_MAX_STRETCH = 2.0  # times as long as planned may a block take
_NARROW = 0.01  # half-width of an interval, as logarithm, that is narrow enough …
_NARROW_SHARE = 0.2  # … or as a share of the effect
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # Student's, 97.5 %

_state: dict[str, Any] = {"course": None}


class _Side:
    """The edits of a side, and how long its blocks were beside their neighbours."""

    def __init__(self, index: int, edits: Any) -> None:
        self.index = index
        self.edits = [
            (FIRST_NUMBER * index + position, edit) for position, edit in enumerate(edits)
        ]
        self.flags = {
            number: flags.FlagEdit(number, edit)
            for number, edit in self.edits
            if edit["kind"] == "set_argument"
            and edit["name"] in flags.NAMES
            and edit["target"].rpartition(".")[2][:1].isupper()
        }
        self.undos: list[Any] = []
        self.ratios: list[float] = []
        self.rounds = 0
        self.failed = False

    def apply(self) -> None:
        """Apply the edits. Raises what one of them does."""
        for number, edit in self.edits:
            flag = self.flags.get(number)
            undo = overlay.apply_edit(number, edit) if flag is None else flag.apply()
            if undo is not None:
                self.undos.append(undo)

    def revert(self) -> None:
        """Revert them, the last one first."""
        while self.undos:
            self.undos.pop()()

    def is_decided(self) -> bool:
        """Return whether more blocks would not narrow the interval to any use."""
        count = len(self.ratios)
        if count < max(2, _state["plan"]["min_rounds"]):
            return False
        mean = sum(self.ratios) / count
        variance = sum((ratio - mean) ** 2 for ratio in self.ratios) / (count - 1)
        half_width = _T[min(count - 2, len(_T) - 1)] * math.sqrt(variance / count)
        return half_width <= max(_NARROW, _NARROW_SHARE * abs(mean))


class _BlockCourse:
    """The blocks so far, and the one that runs."""

    def __init__(self, sides: list[_Side]) -> None:
        self.sides = sides
        self.active: _Side | None = None
        self.edges = 0  # of the block
        self.began = 0
        self.length: int | None = None  # steps of a block
        self.first_blocks = 0
        self.unedited_ns: list[float] = []
        self.last: tuple[_Side, float] | None = None  # a side's block, and how long its steps were

    def is_over(self, now_ns: int) -> bool:
        """Return whether the block has its steps; a side's first one has as many to get warm.

        A side that is far slower than unedited steps gets fewer.
        """
        plan = _state["plan"]
        times = 2 if self.active is not None and not self.active.rounds else 1
        if now_ns - self.began > _MAX_STRETCH * times * plan["block_s"] * 1e9:
            return self.edges >= times * plan["min_steps"]
        return self.edges >= (self.length or 0) * times

    def next_side(self) -> _Side | None:
        """Return the side that is switched on next; None: all are decided."""
        most = _state["plan"]["max_rounds"]
        open_sides = [
            side
            for side in self.sides
            if not side.failed and side.rounds < most and not side.is_decided()
        ]
        return min(open_sides, key=lambda side: (side.rounds, side.index), default=None)


def begin(plan: Any) -> None:
    """Switch edits as planned; nothing without a plan."""
    forget()
    if not plan:
        return
    _state["plan"] = plan
    models.on_model(lambda _module: None)  # they are known when an edit asks for them
    losses.follow()
    _state["course"] = _BlockCourse(
        [_Side(index + 1, edits) for index, edits in enumerate(plan["sides"])]
    )
    recorder.on_edge(_edge)


def forget() -> None:
    """Switch nothing: also in a forked child."""
    _state["course"] = None


@patching.guard("switching")
def _edge(_number: int, _start: int, end: int) -> None:
    course = _state["course"]
    if course is None:
        return
    course.edges += 1
    if course.length is None:
        _plan_blocks(course, end)
    elif course.is_over(end):
        _end_block(course, end)


def _plan_blocks(course: _BlockCourse, end: int) -> None:
    """Begin the first block once the training is warm; it decides how long blocks are."""
    plan = _state["plan"]
    warm = plan["warm"]
    if course.edges == max(1, warm // 2):
        _wait_for_device()
        course.began = recorder.now()
    if course.edges < warm:
        return
    if stop._has_several_ranks():
        recorder.report_unobserved("switching", "several ranks would switch at different steps")
        _leave(end)
        return
    _wait_for_device()
    step_ns = (recorder.now() - course.began) / max(1, warm - max(1, warm // 2))
    course.length = max(plan["min_steps"], math.ceil(plan["block_s"] * 1e9 / max(1.0, step_ns)))
    _mark(end, 0, wire.SWITCH_MADE)
    _begin_block(course)


def _begin_block(course: _BlockCourse) -> None:
    _wait_for_device()
    course.edges, course.began = 0, recorder.now()


def _end_block(course: _BlockCourse, end: int) -> None:
    _wait_for_device()
    step_ns = (recorder.now() - course.began) / course.edges
    side = course.active
    if not losses.is_finite():
        _mark(end, 0 if side is None else side.index, wire.SWITCH_NOT_FINITE)
        _leave(end)
        return
    if side is not None:
        course.last = (side, step_ns) if side.rounds else None
        side.rounds += 1
        side.revert()
        course.active = None
        _mark(end, 0, wire.SWITCH_MADE)
    else:
        _end_unedited(course, step_ns, end)
    if _state["course"] is not None:
        _begin_block(course)
        recorder.flush()


def _end_unedited(course: _BlockCourse, step_ns: float, end: int) -> None:
    """Compare the side before with both its neighbours; switch the next one on."""
    course.unedited_ns.append(step_ns)
    if course.last is not None:
        side, side_ns = course.last
        neighbours = course.unedited_ns[-2:]
        side.ratios.append(math.log(sum(neighbours) / len(neighbours) / side_ns))
        course.last = None
    if len(course.unedited_ns) < FIRST_BLOCKS:
        _mark(end, 0, wire.SWITCH_MADE)
        return
    while True:
        side = course.next_side()
        if side is None:
            _leave(end)
            return
        if _switch_on(side, end):
            course.active = side
            _mark(end, side.index, wire.SWITCH_MADE)
            return


def _switch_on(side: _Side, end: int) -> bool:
    """Return whether a side's edits could be applied; where not, they are reverted and left."""
    try:
        side.apply()
    except Exception as error:
        if tracebacks.from_a_signal_handler(error):
            raise
        side.failed = True
        side.revert()
        edit_counters.record_refusal(side.edits[0][0], "switching", repr(error)[:300])
        _mark(end, side.index, wire.SWITCH_FAILED)
        return False
    return True


def _leave(end: int) -> None:
    """Switch no more, and end this process."""
    _mark(end, 0, wire.SWITCH_LAST)
    _state["course"] = None
    stop.leave_now()


def _mark(end: int, side: int, what: int) -> None:
    recorder.mark(wire.SWITCH, end, recorder.now(), side, what)


def _wait_for_device() -> None:
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing():
        sys.modules["torch"]._C._cuda_synchronize()
