"""Specifications of a trial and of one arm, and its result: values between the modules."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.edit import Applicability, Edit
from gapless.model.estimate import Estimate
from gapless.model.recording import Recording

OUT_OF_MEMORY: Final = "out of memory"  # of ``ArmRun.failure``: the one failure that is a result
UNEDITED: Final = "A"


class ArmMode(StrEnum):
    """How the arms of a trial run: each in a process of its own, or switched in turns in one."""

    FRESH = "fresh"  # every arm in a process of its own
    FRESH_FIRST = "fresh first"  # as far as the budget holds it; else what cannot be switched
    SWITCHED_FIRST = "switched first"  # only what cannot be switched gets processes of its own
    SWITCHED = "switched"  # what cannot be switched while a training runs is not tried


class Candidate(Struct, frozen=True):
    """A combination of edits to try: one side of a trial."""

    fixes: tuple[str, ...]
    summary: str
    edits: tuple[Edit, ...]
    applicability: Applicability
    predicted: Estimate | None = None
    max_half_width: float | None = None  # the largest relative half-width of its interval


class Job(Struct, frozen=True):
    """A whole job: what a gain is worth once start, epoch turns and exit are counted."""

    steps: int
    turns: int  # epochs begun after the first


class TrialSettings(Struct, frozen=True):
    """What a trial is about, and what it may cost."""

    id: str
    command: tuple[str, ...]
    run: str | None = None  # the recorded run that it is about
    job: Job | None = None  # of that run; None: not known
    budget_s: float = 240.0
    # to which it may grow, so that two pairs fit; None: it may not
    max_budget_s: float | None = None
    cache: str = "warm"  # "cold": arms begin with the files of the data out of memory
    windows: bool = True  # an arm more of each side takes one, for the accounts
    clock: Callable[[], float] = time.monotonic
    steps: int | None = None  # of an arm, as requested by the user; None: as needed
    pairs: int = 3  # of each side, before it may be decided, as far as the budget suffices
    start_s: float | None = None  # on the clock; None: with the first arm
    mode: ArmMode = ArmMode.FRESH_FIRST
    run_pair: "RunPair | None" = None  # runs two arms that step in turns; None: that is impossible
    periods: tuple[int, ...] = ()  # of what recurs in the recorded run, in steps


class TurnPlan(Struct, frozen=True):
    """How two arms step in turns: the steps before, those of a slice, and how many slices."""

    start: int
    slice_steps: int
    slices: int  # even
    settling: int  # steps at the beginning of a slice that do not count

    @property
    def stop_step(self) -> int:
        """Return the step at which both arms leave."""
        return self.start + self.slices * self.slice_steps


class ArmSpec(Struct, frozen=True):
    """One arm to run; it leaves at ``stop_step`` or after ``seconds`` of stepping."""

    side: str
    index: int
    edits: tuple[Edit, ...]
    stop_step: int
    seconds: float
    takes_window: bool = False
    switched: tuple[tuple[Edit, ...], ...] = ()  # edits of sides, switched while the arm runs
    turns: TurnPlan | None = None  # it steps in turns with another arm
    has_first_turn: bool = False


class ArmRun(Struct, frozen=True):
    """The outcome of an arm."""

    recording: Recording | None
    code: int | None
    failure: str | None = None  # OUT_OF_MEMORY, or the last line that it wrote; None: it went well
    account: Account | None = None  # of its window
    foreign: float | None = None  # processors that others took, as a share of all, over the arm


RunArm = Callable[[ArmSpec], ArmRun]
RunPair = Callable[[ArmSpec, ArmSpec], tuple[ArmRun, ArmRun]]
