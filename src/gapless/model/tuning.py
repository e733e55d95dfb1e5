"""Fixes that were measured on top of one another, and what they give together."""

from msgspec import Struct

from gapless.model.edit import Applicability, Edit, Location
from gapless.model.estimate import Estimate
from gapless.model.trial import Trial, TrialVerdict


class ProvenFix(Struct, frozen=True):
    """A named fix that a trial has shown to be worth it, with the edits that were measured."""

    fix: str
    summary: str  # "num_workers 0 → 4 at train.py:41"
    edits: tuple[Edit, ...]
    applicability: Applicability
    speedup: Estimate | None = None  # of the steady step, on top of the fixes before it; 95 %
    risk: str | None = None
    location: Location | None = None


class Tuning(Struct, frozen=True):
    """What a command gains from fixes that were proven, in the order in which they were kept."""

    command: tuple[str, ...]
    folder: str  # working folder of the command
    run: str | None  # id of the recorded run that the fixes were chosen from
    fixes: tuple[ProvenFix, ...]
    speedup: Estimate | None = None  # of all of them, against the untouched command; 95 %
    before_ns: int | None = None  # a steady step of the untouched command
    after_ns: int | None = None  # and with all fixes

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits of all fixes, each once, in order."""
        return tuple({repr(edit): edit for fix in self.fixes for edit in fix.edits}.values())


class TriedFix(Struct, frozen=True):
    """A fix that was tried on top of those kept before it, and what became of it."""

    fix: str
    summary: str
    edits: tuple[Edit, ...]
    applicability: Applicability
    verdict: TrialVerdict
    is_kept: bool
    why: str  # it was kept or dropped: "confirmed", "losses differ"
    n_kept: int  # fixes below it
    predicted: Estimate | None = None  # 90 %
    speedup: Estimate | None = None  # measured, on top of those below; 95 %
    noise: float | None = None  # A/A of its trial, relative
    location: Location | None = None
    spent_s: float = 0.0


class TuningState(Struct, frozen=True):
    """How far the tuning of a command has come: what was tried, what is kept, what is left."""

    command: tuple[str, ...]
    folder: str  # working folder of the command
    run: str | None  # id of the recorded run that it began with
    record: str | None = None  # folder of a record with all kept fixes applied
    fixes: tuple[ProvenFix, ...] = ()
    tries: tuple[TriedFix, ...] = ()
    remaining: tuple[str, ...] = ()  # what was proposed and not tried, each with the reason
    end: str | None = None  # why it ended; None: it goes on
    proof: Trial | None = None  # all that is kept against the untouched command
    spent_s: float = 0.0
