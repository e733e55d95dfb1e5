"""Trials: proposals measured, arm by arm. Times are integer nanoseconds, speed-ups are ratios."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from gapless.model.account import Account
from gapless.model.edit import Applicability, Edit
from gapless.model.estimate import Estimate


class TrialVerdict(StrEnum):
    """What a trial has shown. Proven: the interval lies above max(1 %, the A/A noise)."""

    CONFIRMED = "confirmed"  # faster, and as predicted where there is a prediction
    LARGER = "larger"  # than predicted
    SMALLER = "smaller"  # than predicted, but faster
    NOTHING = "nothing"  # the interval lies within ± max(1 %, the noise)
    WORSE = "worse"
    UNDECIDED = "undecided"
    DOES_NOT_FIT = "does-not-fit"  # out of memory
    REFUSED = "refused"  # it trained on other data, or failed; ``why`` says which


FASTER: Final = (TrialVerdict.CONFIRMED, TrialVerdict.LARGER, TrialVerdict.SMALLER)


class Parity(StrEnum):
    """How the losses of the edited arms compare with those of two unedited ones."""

    IDENTICAL = "same"  # to the bit
    WITHIN_SPREAD = "within-spread"
    DIFFERENT = "different"
    NOT_OBSERVED = "not-observed"


class Method(StrEnum):
    """How a side was measured."""

    FRESH = "fresh processes"
    IN_PROCESS = "in one process"  # switched on and off while it ran


class Arm(Struct, frozen=True):
    """One run of the command, with or without the edits; in one process a block of its steps."""

    side: str  # "A": unedited, "B", "C" …
    order: int
    folder: str | None  # of the run
    code: int | None  # exit code
    steps: int  # measured ones
    step_ns: int | None  # their time each; None: nothing was measured
    first_batch_ns: int | None
    start_ns: int | None  # from the start of the process to the end of the first step
    turn_ns: int | None  # an epoch turn: mean
    exit_ns: int | None  # the workers' end
    foreign: float | None  # processors that others took meanwhile, as a share of all
    failed: str | None = None  # why it does not count: "out of memory", "disturbed", "no steps" …
    noise: float | None = None  # half-width of the interval of its own step time, relative


class Side(Struct, frozen=True):
    """A combination of edits that was tried, and its result against the unedited runs."""

    name: str  # "B"
    fixes: tuple[str, ...]
    summary: str
    edits: tuple[Edit, ...]
    applicability: Applicability
    verdict: TrialVerdict
    speedup: Estimate | None  # of the steady step
    job: Estimate | None  # of a whole job as long as the recorded one
    first_batch_ns: int | None = None  # medians of this side's arms
    turn_ns: int | None = None
    exit_ns: int | None = None
    step_ns: int | None = None
    parity: Parity = Parity.NOT_OBSERVED
    parity_note: str | None = None
    data: str | None = None  # what it trained on: "same", "another order", "other samples"…
    why: str | None = None
    account: Account | None = None  # of one window of the last arm
    predicted: Estimate | None = None
    method: Method = Method.FRESH
    noise: float | None = None  # A/A, where it is this side's own: in one process
    memory_peaks: tuple[int, int] | None = (
        None  # bytes on the device, unedited and edited: likewise
    )


class Trial(Struct, frozen=True):
    """What ``gapless try`` found out."""

    id: str
    command: tuple[str, ...]
    run: str | None  # the recorded run that it is about
    arms: tuple[Arm, ...]
    order: str  # "ABBAABBA"
    sides: tuple[Side, ...]  # without the unedited one
    noise: float | None  # A/A: what such a trial of no edit typically shows, relative
    step_ns: int | None  # unedited
    measured: tuple[int, int] | None  # the steps of each arm that count: first and last
    cache: str  # "warm" | "cold"
    spent_s: float
    account: Account | None = None  # of one window of the last unedited arm
    notes: tuple[str, ...] = ()
