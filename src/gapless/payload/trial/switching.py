"""Edits that are switched while the training runs: blocks of steps with and without them, in turn.

The plan is the trial's "switching": {"sides": lists of edits, "block_s": seconds of a block,
"min_steps" of it, "target_s": seconds from the first step within which the sides are to be decided,
"max_rounds": blocks of each side}. Blocks go A A A B A C A B A C A …: each of a side lies between
two unedited ones. Of a block the steps do not count in which the training settles: those of the
batches that were made before, and a part more; of a side's first block as many as of a block, so
that workers have started. Each switch is a mark, SWITCH, and so is the end of settling. What cannot
be switched is marked as failed and left out; the training goes on.

Undecided sides take turns until the time is used; a decided one leaves them.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from ... import wire
from .. import patching, recorder, tracebacks
from ..overlay import models
from ..overlay.patch import edit_counters
from ..process_state import keep
from . import block_memory, losses, second_loaders, stop
from .sides import SwitchedSide

FIRST_BLOCKS = 3  # unedited ones, before the first switch
MIN_ROUNDS = 2  # blocks of each side, whatever time they take
SETTLING = 0.25  # of a block: the steps after a switch that do not count, at least …
MIN_SETTLING = 2  # … and in steps
WARM_STEPS, WARM_S, MIN_WARM = 20, 2.0, 6  # before the first block: steps, or seconds and steps
_MAX_SETTLING = 3.0  # times as long as a block may it take to settle, where steps are slow
_MAX_STRETCH = 2.0  # times as long as planned may a block take


class _BlockCourse:
    """The blocks so far, and the one that runs."""

    def __init__(self, sides: list[SwitchedSide]) -> None:
        self.sides = sides
        self.active: SwitchedSide | None = None
        self.edges = 0  # since the switch, or since it settled
        self.began = self.first = 0
        self.is_settling = True
        self.depth = 0  # batches that were made before the switch, or will be after it
        self.length: int | None = None  # steps of a block
        self.unedited_ns: list[float] = []
        self.last: tuple[SwitchedSide, float] | None = (
            None  # a side's block, and how long its steps were
        )

    @property
    def block_ns(self) -> float:
        """How long a block is planned to take."""
        return _switching.plan["block_s"] * 1e9

    def plan_length(self, step_ns: float) -> None:
        """Set how many steps a block has, by how long they take."""
        plan = _switching.plan
        self.length = max(plan["min_steps"], math.ceil(self.block_ns / max(1.0, step_ns)))

    def is_settled(self, now_ns: int) -> bool:
        """Return whether the steps after a switch are over that do not count."""
        length = self.length or 0
        is_first = self.active is not None and not self.active.rounds
        if now_ns - self.began > (_MAX_SETTLING + is_first) * self.block_ns:
            return self.edges >= MIN_SETTLING
        steps = max(MIN_SETTLING, self.depth, math.ceil(SETTLING * length))
        return self.edges >= steps + is_first * length

    def is_over(self, now_ns: int) -> bool:
        """Return whether the block has its steps; far slower than planned, it gets fewer."""
        plan = _switching.plan
        if now_ns - self.began > _MAX_STRETCH * self.block_ns:
            return self.edges >= plan["min_steps"]
        return self.edges >= (self.length or 0)

    def aa_ratios(self) -> list[float]:
        """Return how far unedited blocks lie from the mean of their unedited neighbours."""
        times = [math.log(step_ns) for step_ns in self.unedited_ns]
        return [(a + b) / 2 - mid for a, mid, b in zip(times, times[1:], times[2:])]

    def next_side(self, now_ns: int) -> SwitchedSide | None:
        """Return the side that is switched on next; None: all are decided, or time is used."""
        plan, aa_ratios = _switching.plan, self.aa_ratios()
        open_sides = [
            side
            for side in self.sides
            if not side.failed
            and side.rounds < plan["max_rounds"]
            and not side.is_decided(aa_ratios)
        ]
        pair_ns = 2 * (1 + SETTLING) * self.block_ns
        if now_ns + pair_ns > self.first + plan["target_s"] * 1e9:
            open_sides = [side for side in open_sides if side.rounds < MIN_ROUNDS]
        for side in self.sides:
            if side not in open_sides:
                side.close()
        return min(open_sides, key=lambda side: (side.rounds, side.index), default=None)


class _Switching:
    """The plan, and the blocks as they go."""

    def __init__(self) -> None:
        self.plan: dict[str, Any] = {}
        self.course: _BlockCourse | None = None
        self.inherited: list[Any] = []

    def fork(self) -> None:
        """Switch nothing.

        In a forked child the parent's is kept: iterators that the child let go would end the
        parent's workers.
        """
        self.inherited.append(self.course)
        self.course = None


_switching = keep(_Switching())


def begin(plan: Any) -> None:
    """Switch edits as planned; nothing without a plan."""
    _switching.fork()
    if not plan:
        return
    _switching.plan = plan
    models.on_model(lambda _module: None)  # they are known when an edit asks for them
    losses.follow()
    sides = [SwitchedSide(index + 1, edits) for index, edits in enumerate(plan["sides"])]
    second_loaders.follow()
    _switching.course = _BlockCourse(sides)
    recorder.on_edge(_edge)


@patching.guard("switching")
def _edge(_number: int, _start: int, end: int) -> None:
    course = _switching.course
    if course is None:
        return
    course.edges += 1
    if course.length is None:
        _warm_up(course, end)
    elif course.is_settling:
        if course.is_settled(end):
            _begin_measuring(course, end)
    elif course.is_over(end):
        _end_block(course, end)


def _warm_up(course: _BlockCourse, end: int) -> None:
    """Begin the first block once the training is warm; it decides how long blocks are."""
    if not course.first:
        course.first = end
    if course.edges == MIN_WARM // 2:
        _wait_for_device()
        course.began = recorder.now()
    is_long = end - course.first > WARM_S * 1e9
    if course.edges < (MIN_WARM if is_long else WARM_STEPS):
        return
    if stop._has_several_ranks():
        recorder.report_unobserved("switching", "several ranks would switch at different steps")
        _leave(end)
        return
    _wait_for_device()
    course.plan_length((recorder.now() - course.began) / (course.edges - MIN_WARM // 2))
    _mark(end, 0, wire.SWITCH_MADE)
    _begin_block(course)


def _begin_block(course: _BlockCourse, before: SwitchedSide | None = None) -> None:
    """Begin to settle: what the loaders before and now have made ahead is used up first."""
    sides = [side for side in (before, course.active) if side is not None]
    course.depth = max([second_loaders.find_depth(), *(side.find_depth() for side in sides)])
    course.is_settling = True
    course.edges, course.began = 0, recorder.now()


def _begin_measuring(course: _BlockCourse, end: int) -> None:
    course.is_settling = False
    _mark(end, 0 if course.active is None else course.active.index, wire.SWITCH_SETTLED)
    _wait_for_device()
    block_memory.begin()
    losses.begin_block()
    course.edges, course.began = 0, recorder.now()


def _end_block(course: _BlockCourse, end: int) -> None:
    _wait_for_device()
    step_ns = (recorder.now() - course.began) / course.edges
    side = course.active
    block_memory.end(0 if side is None else side.index)
    losses.end_block(0 if side is None else side.index)
    if not losses.is_finite():
        _mark(end, 0 if side is None else side.index, wire.SWITCH_NOT_FINITE)
        _leave(end)
        return
    if side is not None:
        course.last = side, step_ns
        side.rounds += 1
        side.revert()
        course.active = None
        _mark(end, 0, wire.SWITCH_MADE)
    else:
        _end_unedited(course, step_ns, end)
    if _switching.course is not None:
        _begin_block(course, side)
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
        course.plan_length(min(course.unedited_ns))  # the first steps may have been slow
        _mark(end, 0, wire.SWITCH_MADE)
        return
    while True:
        side = course.next_side(end)
        if side is None:
            _leave(end)
            return
        if _switch_on(side, end):
            course.active = side
            _mark(end, side.index, wire.SWITCH_MADE)
            return


def _switch_on(side: SwitchedSide, end: int) -> bool:
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
    _switching.course = None
    stop.leave_now()


def _mark(end: int, side: int, what: int) -> None:
    recorder.mark(wire.SWITCH, end, recorder.now(), side, what)


def _wait_for_device() -> None:
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing():
        sys.modules["torch"]._C._cuda_synchronize()
